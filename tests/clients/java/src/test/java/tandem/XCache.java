package tandem;

import java.net.InetSocketAddress;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;

/**
 * xmemcached. Without SASL: it authenticates in the background and sends commands meanwhile, which a server refuses.
 */
final class XCache implements Cache {
  private final MemcachedClient client;
  private final boolean binary;

  XCache(InetSocketAddress address, boolean binary) throws Exception {
    var builder = new XMemcachedClientBuilder(List.of(address));
    builder.setOpTimeout(10_000);
    builder.setHealSessionInterval(100);
    if (binary) {
      builder.setCommandFactory(new BinaryCommandFactory());
    }
    this.binary = binary;
    client = builder.build();
  }

  @Override
  public boolean set(String key, int expirySeconds, Object value) throws Exception {
    return client.set(key, expirySeconds, value);
  }

  @Override
  public boolean add(String key, Object value) throws Exception {
    return client.add(key, 0, value);
  }

  @Override
  public boolean replace(String key, Object value) throws Exception {
    return client.replace(key, 0, value);
  }

  @Override
  public boolean append(String key, Object value) throws Exception {
    return client.append(key, value);
  }

  @Override
  public boolean prepend(String key, Object value) throws Exception {
    return client.prepend(key, value);
  }

  @Override
  public Object get(String key) throws Exception {
    return client.get(key);
  }

  @Override
  public Map<String, Object> get(Collection<String> keys) throws Exception {
    return client.get(keys);
  }

  @Override
  public Versioned gets(String key) throws Exception {
    GetsResponse<Object> found = client.gets(key);
    return found == null ? null : new Versioned(found.getValue(), found.getCas());
  }

  @Override
  public boolean cas(String key, Object value, long cas) throws Exception {
    return client.cas(key, 0, value, cas);
  }

  @Override
  public long incr(String key, long delta, long initial) throws Exception {
    return client.incr(key, delta, initial);
  }

  @Override
  public long decr(String key, long delta, long initial) throws Exception {
    return client.decr(key, delta, initial);
  }

  @Override
  public boolean touch(String key, int expirySeconds) throws Exception {
    return client.touch(key, expirySeconds);
  }

  @Override
  public Object getAndTouch(String key, int expirySeconds) throws Exception {
    return client.getAndTouch(key, expirySeconds);
  }

  @Override
  public boolean canGetAndTouch() {
    return binary;
  }

  @Override
  public boolean delete(String key) throws Exception {
    return client.delete(key);
  }

  @Override
  public void flush() throws Exception {
    client.flushAll();
  }

  @Override
  public Map<String, String> stats() throws Exception {
    return client.getStats().values().iterator().next();
  }

  @Override
  public String version() throws Exception {
    return client.getVersions().values().iterator().next();
  }

  @Override
  public void close() throws Exception {
    client.shutdown();
  }
}
