import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** The patterns of bench/cep in Flink: prints CPU microseconds per event of the second of two runs. */
public class CepBench {
  public static class Event {
    public long key;
    public int kind;
    public long time;

    public Event() {}
  }

  public static class Kind extends SimpleCondition<Event> {
    private final int kind;

    public Kind(int kind) {
      this.kind = kind;
    }

    @Override
    public boolean filter(Event event) {
      return event.kind == kind;
    }
  }

  public static class Size extends PatternProcessFunction<Event, Long> {
    @Override
    public void processMatch(Map<String, List<Event>> match, Context ctx, Collector<Long> out) {
      out.collect((long) match.size());
    }
  }

  /** Counts matches: the context of a pattern's function has no accumulators. */
  public static class Count extends RichMapFunction<Long, Long> {
    private final LongCounter matches = new LongCounter();

    @Override
    public void open(OpenContext context) {
      getRuntimeContext().addAccumulator("matches", matches);
    }

    @Override
    public Long map(Long size) {
      matches.add(1);
      return size;
    }
  }

  public static void main(String[] arguments) throws Exception {
    String workload = arguments[0];
    long events = Long.parseLong(arguments[1]);
    long keys = Long.parseLong(arguments[2]);
    long window = Long.parseLong(arguments[3]);
    int parallelism = Integer.parseInt(arguments[4]);
    long matches = 0;
    double cpu = 0, wall = 0;
    for (int run = 0; run < 2; run++) {
      StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
      env.setParallelism(parallelism);
      env.getConfig().enableObjectReuse();
      DataStream<Event> stream =
          env.fromSequence(0, events - 1).setParallelism(1)
              .map(CepBench::event).returns(TypeInformation.of(Event.class)).setParallelism(1)
              .assignTimestampsAndWatermarks(
                  WatermarkStrategy.<Event>forMonotonousTimestamps().withTimestampAssigner((event, t) -> event.time))
              .setParallelism(1);
      Pattern<Event, ?> pattern;
      if (workload.equals("three")) {
        pattern = Pattern.<Event>begin("a").where(new Kind(0)).followedBy("b").where(new Kind(1))
            .followedBy("c").where(new Kind(2)).within(Duration.ofMillis(window));
      } else {
        pattern = Pattern.<Event>begin("a", AfterMatchSkipStrategy.skipPastLastEvent()).where(new Kind(0))
            .followedBy("b").where(new Kind(1)).oneOrMore().greedy()
            .followedBy("c").where(new Kind(2)).within(Duration.ofMillis(window));
      }
      CEP.pattern(stream.keyBy(event -> event.key), pattern).process(new Size()).map(new Count())
          .sinkTo(new DiscardingSink<>());
      long cpuBefore = cpuNanos(), wallBefore = System.nanoTime();
      matches = env.execute("cep").getAccumulatorResult("matches");
      cpu = (cpuNanos() - cpuBefore) / 1e3 / events;
      wall = (System.nanoTime() - wallBefore) / 1e9;
    }
    System.out.println("{\"cpu_us\": " + cpu + ", \"wall_s\": " + wall + ", \"matches\": " + matches + "}");
  }

  static Event event(long i) {
    Event event = new Event();
    event.key = (i * 7919) % 10000;
    long mixed = i * 2654435761L & 0xFFFFFFFFL;
    mixed = (mixed ^ mixed >> 15) * 2246822519L & 0xFFFFFFFFL;
    event.kind = (int) (mixed >> 13 & 7);
    event.time = i / 50;
    return event;
  }

  static long cpuNanos() {
    return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }
}
