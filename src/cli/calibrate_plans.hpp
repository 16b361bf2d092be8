// `tandem calibrate --plans`: what each plan demands of this machine.
#pragma once
#include <string>

namespace tandem::cli {

struct CalibratePlansArguments {
  std::string gpu, items, file;  // file: empty: keeps nothing
  unsigned threads = 0, rounds = 0;
  double seconds = 0;
  bool json = false;
};

// Throws CommandError.
int calibrate_plans(const CalibratePlansArguments& arguments);

}  // namespace tandem::cli
