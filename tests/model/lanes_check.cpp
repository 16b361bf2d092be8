// The differential check of src/index/cuckoo/cuckoo_test.cpp as a program of its own, for processors that the test
// framework was not built for.
#include "index/cuckoo/cuckoo_check.hpp"

int main() {
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
