// A foreign project's first use of the embedded store.
#include <cstdint>
#include <cstdio>

#include <tandem/store.hpp>

int main() {
  tandem::Store store({.memory_bytes = std::uint64_t{64} << 20});
  store.set("answer", "42");
  if (store.get("answer") != "42" || store.increment("answer") != 43U) return 1;
  std::puts("stored and read back");
}
