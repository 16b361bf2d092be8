package tandem;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Every library over every protocol it has, against the servers that $SERVER and $SASL_SERVER name. */
class CacheTest {
  private static final String USER = "tester";
  private static final String PASSWORD = "secret";

  private static InetSocketAddress address(String variable) {
    String[] parts = System.getenv(variable).split(":");
    return new InetSocketAddress(parts[0], Integer.parseInt(parts[1]));
  }

  @Timeout(60)
  abstract static class Checks {
    private Cache cache;

    abstract Cache connect(InetSocketAddress address) throws Exception;

    Cache connect() throws Exception {
      return connect(address("SERVER"));
    }

    @BeforeEach
    void open() throws Exception {
      cache = connect();
      cache.flush();
    }

    @AfterEach
    void close() throws Exception {
      cache.close();
    }

    @Test
    void setGetDelete() throws Exception {
      assertTrue(cache.set("key", 100, "value"));
      assertEquals("value", cache.get("key"));
      assertTrue(cache.delete("key"));
      assertFalse(cache.delete("key"));
      assertNull(cache.get("key"));
    }

    @Test
    void valuesOfEveryKind() throws Exception {
      for (Object value : List.of("", "Ω", 7, -3L, 1.5, true, new HashMap<>(Map.of("a", List.of(1, "b"))))) {
        assertTrue(cache.set("key", 0, value));
        assertEquals(value, cache.get("key"));
      }
      byte[] all = new byte[256];
      for (int n = 0; n < all.length; ++n) {
        all[n] = (byte) n;
      }
      assertTrue(cache.set("key", 0, all));
      assertArrayEquals(all, (byte[]) cache.get("key"));
    }

    @Test
    void addReplaceAppendPrepend() throws Exception {
      assertFalse(cache.replace("key", "1"));
      assertTrue(cache.add("key", "2"));
      assertFalse(cache.add("key", "3"));
      assertTrue(cache.replace("key", "4"));
      assertTrue(cache.append("key", "5"));
      assertTrue(cache.prepend("key", "6"));
      assertEquals("645", cache.get("key"));
      assertFalse(cache.append("absent", "x"));
    }

    @Test
    void cas() throws Exception {
      cache.set("key", 0, "1");
      Cache.Versioned found = cache.gets("key");
      assertEquals("1", found.value());
      assertTrue(cache.cas("key", "2", found.cas()));
      assertFalse(cache.cas("key", "3", found.cas()));
      assertEquals("2", cache.get("key"));
      assertNull(cache.gets("absent"));
    }

    @Test
    void arithmetic() throws Exception {
      assertEquals(10, cache.incr("n", 5, 10)); // made with the initial value
      assertEquals(15, cache.incr("n", 5, 10));
      assertEquals(12, cache.decr("n", 3, 0));
      assertEquals(0, cache.decr("n", 100, 0));
    }

    @Test
    void many() throws Exception {
      var values = new HashMap<String, Object>();
      for (int n = 0; n < 1000; ++n) {
        values.put("many" + n, "value " + n);
        assertTrue(cache.set("many" + n, 0, "value " + n));
      }
      var keys = new ArrayList<>(values.keySet());
      keys.add("absent");
      assertEquals(values, cache.get(keys));
    }

    @Test
    void touchAndExpiry() throws Exception {
      cache.set("short", 1, "v");
      cache.set("touched", 1, "v");
      assertTrue(cache.touch("touched", 100));
      Wait.until("expired", () -> cache.get("short") == null);
      assertEquals("v", cache.get("touched"));
    }

    @Test
    void getAndTouch() throws Exception {
      if (!cache.canGetAndTouch()) {
        assertThrows(UnsupportedOperationException.class, () -> cache.getAndTouch("key", 100));
        return;
      }
      cache.set("short", 1, "v");
      cache.set("fetched", 1, "v");
      assertEquals("v", cache.getAndTouch("fetched", 100));
      assertNull(cache.getAndTouch("absent", 100));
      Wait.until("expired", () -> cache.get("short") == null);
      assertEquals("v", cache.get("fetched"));
    }

    @Test
    void flush() throws Exception {
      cache.set("key", 0, "v");
      cache.flush();
      assertNull(cache.get("key"));
    }

    @Test
    void largeValues() throws Exception {
      for (int size : new int[] {1, 1 << 14, 1_000_000}) {
        byte[] value = new byte[size];
        new java.util.Random(size).nextBytes(value); // cannot be compressed
        assertTrue(cache.set("large", 0, value));
        assertTrue(Arrays.equals(value, (byte[]) cache.get("large")));
      }
    }

    @Test
    void badKeys() throws Exception {
      assertThrows(Exception.class, () -> cache.set("k".repeat(251), 0, "v"));
      assertTrue(cache.set("k".repeat(250), 0, "v"));
      assertEquals("v", cache.get("k".repeat(250)));
    }

    @Test
    void statsAndVersion() throws Exception {
      cache.set("key", 0, "v");
      assertTrue(Long.parseLong(cache.stats().get("curr_items")) >= 1);
      assertNotNull(cache.version());
    }

    @Test
    void sharedByThreads() throws Exception {
      cache.set("shared", 0, "0");
      var threads = Executors.newFixedThreadPool(8);
      var done = new ArrayList<Future<Void>>();
      for (int t = 0; t < 8; ++t) {
        String own = "own" + t;
        Callable<Void> work =
            () -> {
              for (int n = 0; n < 200; ++n) {
                cache.incr("shared", 1, 0);
                assertTrue(cache.set(own, 0, n));
                assertEquals(n, cache.get(own));
              }
              return null;
            };
        done.add(threads.submit(work));
      }
      for (Future<Void> one : done) {
        one.get();
      }
      threads.shutdown();
      assertEquals(1601, cache.incr("shared", 1, 0));
    }
  }

  abstract static class OpenChecks extends Checks {
    @Test
    void comesBackAfterTheServer() throws Exception {
      try (var server = new OwnServer();
          var cache = connect(server.address)) {
        Wait.until("connected", () -> stores(cache));
        server.kill();
        assertFalse(stores(cache));
        server.start();
        Wait.until("the client works again", () -> stores(cache));
        assertEquals("v", cache.get("key"));
      }
    }

    private static boolean stores(Cache cache) {
      try {
        return cache.set("key", 0, "v");
      } catch (Exception error) {
        return false;
      }
    }
  }

  abstract static class SaslChecks extends Checks {
    abstract Cache connect(InetSocketAddress address, String password) throws Exception;

    @Override
    Cache connect(InetSocketAddress address) throws Exception {
      return connect(address, PASSWORD);
    }

    @Override
    Cache connect() throws Exception {
      return connect(address("SASL_SERVER"));
    }

    @Test
    void wrongPassword() throws Exception {
      assertThrows(
          Exception.class,
          () -> {
            try (var cache = connect(address("SASL_SERVER"), "wrong")) {
              assertTrue(cache.set("key", 0, "v"));
            } catch (AssertionError error) {
              throw new IllegalStateException("refused", error);
            }
          });
    }
  }

  @Nested
  class SpyText extends OpenChecks {
    @Override
    Cache connect(InetSocketAddress address) throws Exception {
      return new SpyCache(address, false, null, null);
    }
  }

  @Nested
  @Tag("binary")
  class SpyBinary extends OpenChecks {
    @Override
    Cache connect(InetSocketAddress address) throws Exception {
      return new SpyCache(address, true, null, null);
    }
  }

  @Nested
  @Tag("binary")
  class SpySasl extends SaslChecks {
    @Override
    Cache connect(InetSocketAddress address, String password) throws Exception {
      return new SpyCache(address, true, USER, password);
    }
  }

  @Nested
  class XmemcachedText extends OpenChecks {
    @Override
    Cache connect(InetSocketAddress address) throws Exception {
      return new XCache(address, false);
    }
  }

  @Nested
  @Tag("binary")
  class XmemcachedBinary extends OpenChecks {
    @Override
    Cache connect(InetSocketAddress address) throws Exception {
      return new XCache(address, true);
    }
  }
}
