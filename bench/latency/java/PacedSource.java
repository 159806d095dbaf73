import java.io.Serializable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;

/**
 * The records of `bench.latency.timetable` as a source of Flink: (key, time at which the record is due).
 *
 * <p>Flink cuts the numbers into one range for each reader, so each range has its own clock: its fill, a pause, and then
 * its share of the rate. The limiter and the generator of a range are called by the same thread and share the clock.
 */
public final class PacedSource {
  private static final long STRIDE = 7919;
  private static final ThreadLocal<Clock> CLOCK = ThreadLocal.withInitial(Clock::new);

  private PacedSource() {}

  /** Returns the source; after `longestSeconds` it gives up and leaves out the rest. */
  public static DataGeneratorSource<Tuple2<Long, Long>> create(
      long records, long rate, long keys, long fill, int splits, double longestSeconds, double settleSeconds) {
    Shape shape = 
        new Shape(records, rate, keys, fill, splits, (long) (longestSeconds * 1e6), (long) (settleSeconds * 1e6));
    return new DataGeneratorSource<>(
        new Records(shape), records, new Pace(shape), Types.TUPLE(Types.LONG, Types.LONG));
  }

  static long nowUs() {
    java.time.Instant now = java.time.Instant.now();
    return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
  }

  private record Shape(long records, long rate, long keys, long fill, int splits, long longestUs, long settleUs)
      implements Serializable {
    /** The first number of the range that a number lies in: all are equally long. */
    long firstOf(long index) {
      long size = records / splits;
      return index / size * size;
    }
  }

  /** The time of a range: one for each thread that reads. */
  private static final class Clock {
    long beganUs;
    long next;

    /** Returns when the paced records began. */
    long began(Shape shape) {
      if (beganUs == 0) {
        beganUs = nowUs() + shape.settleUs;
      }
      return beganUs;
    }
  }

  private static final class Records implements GeneratorFunction<Long, Tuple2<Long, Long>> {
    private final Shape shape;

    Records(Shape shape) {
      this.shape = shape;
    }

    @Override
    public Tuple2<Long, Long> map(Long index) {
      Clock clock = CLOCK.get();
      long first = shape.firstOf(index);
      long place = index - first;
      clock.next = place + 1;
      // The n-th record of each range is one of the n-th group of `splits` numbers, so that ranges take turns.
      long split = first * shape.splits / shape.records;
      long number = place * shape.splits + split;
      long fill = shape.fill / shape.splits;
      long due = place < fill ? 0 : clock.began(shape) + (place - fill) * shape.splits * 1_000_000 / shape.rate;
      return Tuple2.of(number * STRIDE % shape.keys, due);
    }
  }

  private static final class Pace implements RateLimiterStrategy<NumberSequenceSplit> {
    private final Shape shape;

    Pace(Shape shape) {
      this.shape = shape;
    }

    @Override
    public RateLimiter<NumberSequenceSplit> createRateLimiter(int parallelism) {
      return new WhenDue(shape);
    }
  }

  /** Lets a record through when it is due. */
  private static final class WhenDue implements RateLimiter<NumberSequenceSplit> {
    private static final ScheduledExecutorService TIMER =
        Executors.newScheduledThreadPool(
            1,
            work -> {
              Thread thread = new Thread(work, "paced-source");
              thread.setDaemon(true);
              return thread;
            });
    private final Shape shape;

    WhenDue(Shape shape) {
      this.shape = shape;
    }

    @Override
    public CompletionStage<Void> acquire(int permits) {
      Clock clock = CLOCK.get();
      long paced = clock.next - shape.fill / shape.splits;
      if (paced < 0) {
        return CompletableFuture.completedFuture(null);
      }
      long began = clock.began(shape);
      long now = nowUs();
      long due = began + paced * shape.splits * 1_000_000 / shape.rate;
      if (now > began + shape.longestUs) {
        throw new GaveUp();
      }
      if (due <= now) {
        return CompletableFuture.completedFuture(null);
      }
      CompletableFuture<Void> later = new CompletableFuture<>();
      TIMER.schedule(() -> later.complete(null), due - now, TimeUnit.MICROSECONDS);
      return later;
    }
  }

  /** The engine does not keep the rate: the job fails, and what has come out says by how much. */
  static final class GaveUp extends RuntimeException {
    GaveUp() {
      super("The source gave up: the engine does not keep the rate.");
    }
  }
}
