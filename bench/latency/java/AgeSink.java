import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.UUID;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple;

/** Takes the ages of (key, count, due) and leaves a file as `bench.latency.samples` reads it. */
public final class AgeSink implements Sink<Tuple> {
  private final String folder;
  private final int every;

  public AgeSink(String folder, int every) {
    this.folder = folder;
    this.every = every;
  }

  @Override
  public SinkWriter<Tuple> createWriter(WriterInitContext context) {
    return new Writer(context.getTaskInfo().getIndexOfThisSubtask());
  }

  private final class Writer implements SinkWriter<Tuple> {
    private final int subtask;
    private long results;
    private long counts;
    private long keyed;
    private long[] pairs = new long[1 << 16];
    private int used;

    Writer(int subtask) {
      this.subtask = subtask;
    }

    @Override
    public void write(Tuple value, Context context) {
      long key = value.<Number>getField(0).longValue();
      long count = value.<Number>getField(1).longValue();
      long due = value.<Number>getField(2).longValue();
      results++;
      counts += count;
      keyed += key * count;
      if (results % every == 0 && due != 0) {
        if (used == pairs.length) {
          pairs = Arrays.copyOf(pairs, 2 * used);
        }
        pairs[used++] = due;
        pairs[used++] = PacedSource.nowUs() - due;
      }
    }

    @Override
    public void flush(boolean endOfInput) {}

    @Override
    public void close() throws IOException {
      ByteBuffer bytes = ByteBuffer.allocate(8 * (4 + used)).order(ByteOrder.LITTLE_ENDIAN);
      for (long number : new long[] {subtask, results, counts, keyed}) {
        bytes.putLong(number);
      }
      for (int n = 0; n < used; n++) {
        bytes.putLong(pairs[n]);
      }
      Files.write(Path.of(folder, UUID.randomUUID() + ".ages"), bytes.array());
    }
  }
}
