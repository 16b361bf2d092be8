package tandem;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Collectors;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.ClientMode;
import net.spy.memcached.ConnectionFactory;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * AWS's client follows a list of nodes that changes, over text and over binary. $DISCOVERY_SERVER has the control
 * socket $CONTROL, $SERVER is the second node.
 */
class DiscoveryTest {
  private static final long DEADLINE_MS = 120_000;
  // A poll that finds no answer holds up the next one for so long.
  private static final long OPERATION_MS = 10_000;
  private static final long POLL_MS = 100;
  private static final String FIRST = System.getenv("DISCOVERY_SERVER");
  private static final String SECOND = System.getenv("SERVER");

  /** Sets a list of these nodes, with a version above the present one. */
  private static void publish(String... addresses) throws Exception {
    String nodes =
        Arrays.stream(addresses)
            .map(address -> address.split(":")[0] + "|" + address.replace(':', '|'))
            .collect(Collectors.joining(" "));
    try (var control = SocketChannel.open(StandardProtocolFamily.UNIX)) {
      control.connect(UnixDomainSocketAddress.of(System.getenv("CONTROL")));
      var replies =
          new BufferedReader(new InputStreamReader(Channels.newInputStream(control), StandardCharsets.US_ASCII));
      send(control, "config get cluster\r\n");
      long version = System.currentTimeMillis() / 1000;
      if (replies.readLine().startsWith("CONFIG")) {
        version = Math.max(version, Long.parseLong(replies.readLine()) + 1);
        while (!replies.readLine().equals("END")) {}
      }
      String value = version + "\n" + nodes + "\n";
      send(control, "config set cluster 0 " + value.length() + "\r\n" + value + "\r\n");
      assertEquals("STORED", replies.readLine());
    }
  }

  private static void send(SocketChannel to, String text) throws Exception {
    ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.US_ASCII));
    while (bytes.hasRemaining()) {
      to.write(bytes);
    }
  }

  private static void knows(MemcachedClient client, String... addresses) throws Exception {
    var wanted = new TreeSet<>(List.of(addresses));
    for (long end = System.currentTimeMillis() + DEADLINE_MS; ; Thread.sleep(20)) {
      var found = new TreeSet<String>();
      client.getAllNodeEndPoints().forEach(node -> found.add(node.getIpAddress() + ":" + node.getPort()));
      if (found.equals(wanted)) {
        return;
      }
      assertTrue(System.currentTimeMillis() < end, found + ", not " + wanted);
    }
  }

  private static ConnectionFactory factory(boolean binary) {
    if (binary) {
      return new BinaryConnectionFactory(ClientMode.Dynamic) {
        @Override
        public long getDynamicModePollingInterval() {
          return POLL_MS;
        }

        @Override
        public long getOperationTimeout() {
          return OPERATION_MS;
        }
      };
    }
    return new DefaultConnectionFactory() {
      @Override
      public ClientMode getClientMode() {
        return ClientMode.Dynamic;
      }

      @Override
      public long getDynamicModePollingInterval() {
        return POLL_MS;
      }

      @Override
      public long getOperationTimeout() {
        return OPERATION_MS;
      }
    };
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void followsTheList(boolean binary) throws Exception {
    String[] first = FIRST.split(":");
    publish(FIRST);
    var client =
        new MemcachedClient(
            factory(binary), List.of(new InetSocketAddress(first[0], Integer.parseInt(first[1]))));
    try {
      knows(client, FIRST);
      publish(FIRST, SECOND);
      knows(client, FIRST, SECOND);
      for (int number = 0; number < 64; ++number) {
        assertTrue(client.set("aws" + number, 0, "v").get());
        assertEquals("v", client.get("aws" + number));
      }
      publish(SECOND);
      knows(client, SECOND);
    } finally {
      client.shutdown();
      publish(FIRST);
    }
  }
}
