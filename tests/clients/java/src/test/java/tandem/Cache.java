package tandem;

import java.util.Collection;
import java.util.Map;

/** What the tests ask of a client. Each library has its adapter. Null stands for absent. */
interface Cache extends AutoCloseable {
  record Versioned(Object value, long cas) {}

  boolean set(String key, int expirySeconds, Object value) throws Exception;

  boolean add(String key, Object value) throws Exception;

  boolean replace(String key, Object value) throws Exception;

  boolean append(String key, Object value) throws Exception;

  boolean prepend(String key, Object value) throws Exception;

  Object get(String key) throws Exception;

  Map<String, Object> get(Collection<String> keys) throws Exception;

  Versioned gets(String key) throws Exception;

  boolean cas(String key, Object value, long cas) throws Exception;

  long incr(String key, long delta, long initial) throws Exception;

  long decr(String key, long delta, long initial) throws Exception;

  boolean touch(String key, int expirySeconds) throws Exception;

  Object getAndTouch(String key, int expirySeconds) throws Exception;

  boolean canGetAndTouch();

  boolean delete(String key) throws Exception;

  void flush() throws Exception;

  Map<String, String> stats() throws Exception;

  String version() throws Exception;
}
