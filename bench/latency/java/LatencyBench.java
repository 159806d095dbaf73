import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * The program of the latency benchmark in Flink's Java API: a running count per key.
 *
 * <p>Arguments: folder, records, rate, keys, fill, splits, every, longest seconds, settle seconds, checkpoint directory.
 */
public final class LatencyBench {
  private LatencyBench() {}

  public static void main(String[] given) throws Exception {
    Configuration settings = new Configuration();
    settings.setString("execution.checkpointing.interval", "1 s");
    settings.setString("execution.checkpointing.storage", "filesystem");
    settings.setString("execution.checkpointing.dir", given[9]);
    settings.setString("pipeline.object-reuse", "true");
    settings.setString("restart-strategy.type", "none");
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(settings);
    int splits = Integer.parseInt(given[5]);
    env.setParallelism(splits);
    env.setBufferTimeout(0);
    env.fromSource(
            PacedSource.create(
                Long.parseLong(given[1]),
                Long.parseLong(given[2]),
                Long.parseLong(given[3]),
                Long.parseLong(given[4]),
                splits,
                Double.parseDouble(given[7]),
                Double.parseDouble(given[8])),
            WatermarkStrategy.noWatermarks(),
            "paced")
        .keyBy(record -> record.f0, Types.LONG)
        .process(new RunningCount())
        .returns(Types.TUPLE(Types.LONG, Types.LONG, Types.LONG))
        .map(value -> (Tuple) value)
        .returns(Types.GENERIC(Tuple.class))
        .sinkTo(new AgeSink(given[0], Integer.parseInt(given[6])));
    env.execute("latency");
  }

  private static final class RunningCount
      extends KeyedProcessFunction<Long, Tuple2<Long, Long>, Tuple3<Long, Long, Long>> {
    private transient ValueState<Long> count;

    @Override
    public void open(OpenContext context) {
      count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
    }

    @Override
    public void processElement(Tuple2<Long, Long> record, Context context, Collector<Tuple3<Long, Long, Long>> out)
        throws Exception {
      Long before = count.value();
      long now = before == null ? 1 : before + 1;
      count.update(now);
      out.collect(Tuple3.of(record.f0, now, record.f1));
    }
  }
}
