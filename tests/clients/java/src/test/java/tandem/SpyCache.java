package tandem;

import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.FailureMode;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;

/** spymemcached. */
final class SpyCache implements Cache {
  private final MemcachedClient client;
  private final boolean binary;

  SpyCache(InetSocketAddress address, boolean binary, String user, String password) throws Exception {
    System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SLF4JLogger");
    var options =
        new ConnectionFactoryBuilder()
            .setProtocol(
                binary ? ConnectionFactoryBuilder.Protocol.BINARY : ConnectionFactoryBuilder.Protocol.TEXT)
            .setFailureMode(FailureMode.Cancel)
            .setMaxReconnectDelay(1)
            .setOpTimeout(10_000);
    if (user != null) {
      options.setAuthDescriptor(
          new AuthDescriptor(new String[] {"PLAIN"}, new PlainCallbackHandler(user, password)));
    }
    this.binary = binary;
    client = new MemcachedClient(options.build(), List.of(address));
  }

  @Override
  public boolean set(String key, int expirySeconds, Object value) throws Exception {
    return client.set(key, expirySeconds, value).get();
  }

  @Override
  public boolean add(String key, Object value) throws Exception {
    return client.add(key, 0, value).get();
  }

  @Override
  public boolean replace(String key, Object value) throws Exception {
    return client.replace(key, 0, value).get();
  }

  @Override
  public boolean append(String key, Object value) throws Exception {
    return client.append(key, value).get();
  }

  @Override
  public boolean prepend(String key, Object value) throws Exception {
    return client.prepend(key, value).get();
  }

  @Override
  public Object get(String key) {
    return client.get(key);
  }

  @Override
  public Map<String, Object> get(Collection<String> keys) {
    return client.getBulk(keys);
  }

  @Override
  public Versioned gets(String key) {
    CASValue<Object> found = client.gets(key);
    return found == null ? null : new Versioned(found.getValue(), found.getCas());
  }

  @Override
  public boolean cas(String key, Object value, long cas) {
    return client.cas(key, cas, value) == CASResponse.OK;
  }

  @Override
  public long incr(String key, long delta, long initial) {
    return client.incr(key, delta, initial);
  }

  @Override
  public long decr(String key, long delta, long initial) {
    return client.decr(key, delta, initial);
  }

  @Override
  public boolean touch(String key, int expirySeconds) throws Exception {
    return client.touch(key, expirySeconds).get();
  }

  @Override
  public Object getAndTouch(String key, int expirySeconds) {
    CASValue<Object> found = client.getAndTouch(key, expirySeconds);
    return found == null ? null : found.getValue();
  }

  @Override
  public boolean canGetAndTouch() {
    return binary;
  }

  @Override
  public boolean delete(String key) throws Exception {
    return client.delete(key).get();
  }

  @Override
  public void flush() throws Exception {
    if (!client.flush().get()) {
      throw new IllegalStateException("not flushed");
    }
  }

  @Override
  public Map<String, String> stats() {
    return client.getStats().values().iterator().next();
  }

  @Override
  public String version() {
    return client.getVersions().values().iterator().next();
  }

  @Override
  public void close() {
    client.shutdown(1, TimeUnit.SECONDS);
  }
}
