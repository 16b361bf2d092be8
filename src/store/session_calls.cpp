// Calls of one operation each: a batch of one request.
#include <new>
#include <string>
#include <utility>

#include "tandem/store.hpp"

namespace tandem {

Code Session::run(const Request& request, Reply* reply) {
  Code code = Code::miss;
  execute({&request, 1}, [&](std::size_t, const Reply& r) {
    code = r.code;
    if (reply != nullptr) *reply = r;
  });
  return code;
}

namespace {

// The visitor of a call that returns a value. It must not throw, so that the call ends its epoch and forgets its
// request: what has no memory is told when all is done.
class Keeper {
 public:
  explicit Keeper(Value& value) noexcept : value_(value) {}

  void operator()(std::size_t, const Reply& r) noexcept {
    code_ = r.code;
    if (code_ != Code::hit && code_ != Code::removed) return;
    try {
      value_.bytes.assign(r.value);
      value_.flags = r.flags;
      value_.cas = r.cas;
    } catch (const std::bad_alloc&) {
      has_memory_ = false;
    }
  }
  // Throws std::bad_alloc if there was no memory for the value.
  Code code() const {
    if (!has_memory_) throw std::bad_alloc();
    return code_;
  }

 private:
  Value& value_;
  Code code_ = Code::miss;
  bool has_memory_ = true;
};

}  // namespace

Code Session::get(std::string_view key, Value& value) {
  Keeper keeper(value);
  get_batch({&key, 1}, keeper);
  return keeper.code();
}

std::optional<std::string> Session::get(std::string_view key) {
  Value value;
  if (get(key, value) != Code::hit) return std::nullopt;
  return std::move(value.bytes);
}

Code Session::run_for_value(const Request& request, Value& value) {
  Keeper keeper(value);
  execute({&request, 1}, keeper);
  return keeper.code();
}

Code Session::exchange(std::string_view key, std::string_view value, Value& old, StoreOptions o) {
  return run_for_value({.action = Action::exchange, .key = key, .value = value, .ttl_s = o.ttl_s, .flags = o.flags},
                       old);
}
Code Session::take(std::string_view key, Value& old) {
  return run_for_value({.action = Action::take, .key = key}, old);
}

Code Session::set(std::string_view key, std::string_view value, StoreOptions o) {
  return run({.action = Action::set, .key = key, .value = value, .ttl_s = o.ttl_s, .flags = o.flags}, nullptr);
}
Code Session::add(std::string_view key, std::string_view value, StoreOptions o) {
  return run({.action = Action::add, .key = key, .value = value, .ttl_s = o.ttl_s, .flags = o.flags}, nullptr);
}
Code Session::replace(std::string_view key, std::string_view value, StoreOptions o) {
  return run({.action = Action::replace, .key = key, .value = value, .ttl_s = o.ttl_s, .flags = o.flags}, nullptr);
}
Code Session::append(std::string_view key, std::string_view value) {
  return run({.action = Action::append, .key = key, .value = value}, nullptr);
}
Code Session::prepend(std::string_view key, std::string_view value) {
  return run({.action = Action::prepend, .key = key, .value = value}, nullptr);
}
Code Session::compare_and_set(std::string_view key, std::string_view value, std::uint64_t cas, StoreOptions o) {
  return run(
      {.action = Action::compare_and_set, .key = key, .value = value, .ttl_s = o.ttl_s, .flags = o.flags, .cas = cas},
      nullptr);
}
Code Session::remove(std::string_view key) { return run({.action = Action::remove, .key = key}, nullptr); }
Code Session::touch(std::string_view key, std::int64_t ttl_s) {
  return run({.action = Action::touch, .key = key, .ttl_s = ttl_s}, nullptr);
}

std::optional<std::uint64_t> Session::increment(std::string_view key, std::uint64_t delta, Code* code) {
  Reply reply;
  const Code c = run({.action = Action::increment, .key = key, .delta = delta}, &reply);
  if (code != nullptr) *code = c;
  return c == Code::hit ? std::optional(reply.number) : std::nullopt;
}
std::optional<std::uint64_t> Session::decrement(std::string_view key, std::uint64_t delta, Code* code) {
  Reply reply;
  const Code c = run({.action = Action::decrement, .key = key, .delta = delta}, &reply);
  if (code != nullptr) *code = c;
  return c == Code::hit ? std::optional(reply.number) : std::nullopt;
}

}  // namespace tandem
