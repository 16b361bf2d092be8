// For tests: the instructions that indexes and lanes take by default (index/wanted_lanes.hpp).
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "index/wanted_lanes.hpp"

namespace tandem {

// Sets them for as long as it lives; "": the widest. REQUIRES: no other thread.
class WithLanes {
 public:
  explicit WithLanes(std::string_view name) : before_(wanted_lanes()) { set(std::string(name)); }
  ~WithLanes() { set(before_); }
  WithLanes(const WithLanes&) = delete;
  WithLanes& operator=(const WithLanes&) = delete;

 private:
  static void set(const std::string& name) { ::setenv("TANDEM_LANES", name.c_str(), 1); }

  const std::string before_;
};

// One in each program that ctest also runs with single sets of lanes (cmake/TandemTargets.cmake). Where the processor
// has not the wanted set, the program says so and ends as one that was left out.
class LanesOfTest final : public testing::Environment {
 public:
  explicit LanesOfTest(bool (*has)(std::string_view)) : has_(has) {}
  void SetUp() override {
    constexpr int left_out = 77;  // ctest's SKIP_RETURN_CODE
    const std::string wanted(wanted_lanes());
    if (wanted.empty() || has_(wanted)) return;
    std::printf("left out: this processor has no lanes %s\n", wanted.c_str());
    std::fflush(stdout);
    std::_Exit(left_out);
  }

 private:
  bool (*has_)(std::string_view);
};

}  // namespace tandem
