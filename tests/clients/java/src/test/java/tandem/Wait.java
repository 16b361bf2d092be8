package tandem;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Callable;

final class Wait {
  private static final long DEADLINE_MS = 20_000;

  private Wait() {}

  static void until(String what, Callable<Boolean> done) throws Exception {
    for (long end = System.currentTimeMillis() + DEADLINE_MS; !done.call(); Thread.sleep(20)) {
      assertTrue(System.currentTimeMillis() < end, "not in " + DEADLINE_MS + " ms: " + what);
    }
  }
}
