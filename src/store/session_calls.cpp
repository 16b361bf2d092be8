// Calls of one operation each: a batch of one request.
#include <string>

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

std::optional<std::string> Session::get(std::string_view key) {
  std::optional<std::string> value;
  get_batch({&key, 1}, [&](std::size_t, const Reply& r) {
    if (r.code == Code::hit) value.emplace(r.value);
  });
  return value;
}

namespace {
// Passes a reply's code and, if it has one, its value on.
auto taker(Code& code, Value& value) {
  return [&code, &value](std::size_t, const Reply& r) {
    code = r.code;
    if (code != Code::hit && code != Code::removed) return;
    value.bytes.assign(r.value);
    value.flags = r.flags;
    value.cas = r.cas;
  };
}
}  // namespace

Code Session::get(std::string_view key, Value& value) {
  Code code = Code::miss;
  get_batch({&key, 1}, taker(code, value));
  return code;
}

Code Session::run_for_value(const Request& request, Value& value) {
  Code code = Code::miss;
  execute({&request, 1}, taker(code, value));
  return code;
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
