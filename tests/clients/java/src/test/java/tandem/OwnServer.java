package tandem;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A server of the test's own, which it can kill and start again at the same address. */
final class OwnServer implements AutoCloseable {
  final InetSocketAddress address;
  private Process process;

  OwnServer() throws Exception {
    try (var probe = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
      address = new InetSocketAddress("127.0.0.1", probe.getLocalPort());
    }
    start();
  }

  void start() throws Exception {
    var command = new ArrayList<>(List.of(System.getenv("SERVER_COMMAND").split(" ")));
    command.addAll(List.of("-p", String.valueOf(address.getPort())));
    process = new ProcessBuilder(command).inheritIO().start();
    Wait.until("the server listens", this::listens);
  }

  private boolean listens() {
    try (var socket = new Socket()) {
      socket.connect(address, 1000);
      return true;
    } catch (IOException error) {
      return false;
    }
  }

  void kill() throws Exception {
    process.destroyForcibly().waitFor();
  }

  @Override
  public void close() throws Exception {
    kill();
  }
}
