// Calls of one operation each: a batch of one request.
#include <new>
#include <string>
#include <utility>

#include "embedded/session.hpp"

namespace tandem {

Code Session::run(const Request& request, std::uint64_t* number) {
  Code code = Code::miss;
  OneCall::execute(*this, request, [&code, number](const Reply& r) {
    code = r.code;
    if (number != nullptr) *number = r.number;
  });
  return code;
}

namespace {

// The visitor of a call that returns a value, which keep(Reply) keeps. It must not throw, so that the call ends its
// epoch and forgets its request: what has no memory is told when all is done.
template <class Keep>
class Keeper {
 public:
  explicit Keeper(Keep how) noexcept : keep_(how) {}

  void operator()(const Reply& r) noexcept {
    code_ = r.code;
    if (code_ != Code::hit && code_ != Code::removed) return;
    try {
      keep_(r);
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
  Keep keep_;
  Code code_ = Code::miss;
  bool has_memory_ = true;
};

auto keep_in(Value& value) noexcept {
  return Keeper([&value](const Reply& r) {
    value.bytes.assign(r.value);
    value.flags = r.flags;
    value.cas = r.cas;
  });
}

}  // namespace

Code Session::get(std::string_view key, Value& value) {
  auto keeper = keep_in(value);
  OneCall::get(*this, key, keeper);
  return keeper.code();
}

std::optional<std::string> Session::get(std::string_view key) {
  std::optional<std::string> bytes;
  Keeper keeper([&bytes](const Reply& r) { bytes.emplace(r.value); });
  OneCall::get(*this, key, keeper);
  static_cast<void>(keeper.code());
  return bytes;
}

Code Session::run_for_value(const Request& request, Value& value) {
  auto keeper = keep_in(value);
  OneCall::execute(*this, request, keeper);
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
  std::uint64_t number = 0;
  const Code c = run({.action = Action::increment, .key = key, .delta = delta}, &number);
  if (code != nullptr) *code = c;
  return c == Code::hit ? std::optional(number) : std::nullopt;
}
std::optional<std::uint64_t> Session::decrement(std::string_view key, std::uint64_t delta, Code* code) {
  std::uint64_t number = 0;
  const Code c = run({.action = Action::decrement, .key = key, .delta = delta}, &number);
  if (code != nullptr) *code = c;
  return c == Code::hit ? std::optional(number) : std::nullopt;
}

}  // namespace tandem
