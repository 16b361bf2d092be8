// The differential check of src/index/cuckoo/cuckoo_test.cpp, and that of a slab's lanes, as a program of its own, for
// processors that the test framework was not built for.
#include <random>

#include "index/cuckoo/cuckoo_check.hpp"
#include "index/slab_list/slab_ops.hpp"

static bool slabs_are_searched_alike() {
  std::mt19937_64 random(1);
  tandem::Slab slab{};
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t few = round % 2 == 0 ? 3 : 1000;
    for (std::uint64_t& key : slab.key) key = random() % few * 0x0000000100000001;
    slab.next = random() % 5;
    const std::uint64_t key = random() % few * 0x0000000100000001;
    for (const tandem::SlabOps* ops : tandem::slab_ops_built()) {
      if (ops->entries_with(&slab, key) != tandem::slabs_scalar.entries_with(&slab, key)) return false;
    }
  }
  return tandem::slab_ops_built().size() > 1;
}

int main() {
  if (!slabs_are_searched_alike()) {
    std::printf("slabs are searched in different ways\n");
    return 1;
  }
  struct Run {
    std::uint32_t buckets, signatures;
    double load;
  };
  for (const Run run : {Run{2, 0, 0.8}, Run{64, 0, 0.95}, Run{1024, 0, 0.95}, Run{64, 3, 0.8}}) {
    tandem::CuckooCheck check(run.buckets, run.signatures);
    tandem::run_cuckoo_check(check, run.buckets, run.load, 20'000, 7);
    std::printf("%zu kinds, %u buckets, %llu operations: %s\n", check.kinds(), run.buckets,
                static_cast<unsigned long long>(check.operations()),
                check.problem().empty() ? "ok" : check.problem().c_str());
    if (!check.problem().empty()) return 1;
  }
  std::printf("widest: %s\n", std::string(tandem::cuckoo_ops_best().name).c_str());
}
