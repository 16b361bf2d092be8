// For fuzzing: a client that behaves, beside those that do not. It asks for its item, stores it anew and asks again;
// every byte of every answer must be right. The item may be gone (other clients flush, and fill the memory), and a set
// may find no memory; no answer may be wrong or missing.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/platform.hpp"

namespace tandem::net {

class Witness {
 public:
  // Other clients cannot name the key: its 0xff ends their packets, and nothing is compared with its base64.
  static constexpr std::string_view key =
      "\xff"
      "2c1f7a90d35be8464b7e1d0f9a62c853\xff";

  // The next round's requests; only after the answers to the last one.
  std::string ask() {
    TD_ASSERT(!waits());
    ++round_;
    const std::string value = value_of(round_), k(key);
    const std::string miss = "EN\r\n", end = "END\r\n", stored = "STORED\r\n";
    const std::string refused = "SERVER_ERROR out of memory storing object\r\n";
    const std::string hit = "VALUE " + k + " 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
    expected_.clear();
    std::vector<std::string> firsts = {miss};
    if (last_ != 0) {
      const std::string before = value_of(last_);
      firsts.push_back("VA " + std::to_string(before.size()) + "\r\n" + before + "\r\n");
    }
    for (const std::string& first : firsts) {
      expected_.push_back({first + stored + hit, round_});
      expected_.push_back({first + stored + end, 0});
      expected_.push_back({first + refused + end, 0});
    }
    return "mg " + k + " v\r\nset " + k + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nget " + k +
           "\r\n";
  }
  // Some of the answers.
  void hear(std::string_view bytes) {
    if (bytes.empty()) return;
    heard_ += bytes;
    std::erase_if(expected_, [this](const Answers& a) { return !a.text.starts_with(heard_); });
    TD_ASSERT(!expected_.empty());
    if (expected_.front().text != heard_) return;
    last_ = expected_.front().left;
    refused_ = last_ == 0 && heard_.find("SERVER_ERROR") != std::string::npos;
    heard_.clear();
    expected_.clear();
  }
  bool waits() const noexcept { return !expected_.empty(); }
  // After the last round: its item was there, or there was no memory for it.
  bool is_content() const noexcept { return last_ != 0 || refused_; }
  std::uint64_t rounds() const noexcept { return round_; }

 private:
  struct Answers {
    std::string text;
    std::uint64_t left;  // round of the value that is stored then; 0: none
  };

  // Small ones and such as are not copied to the output.
  static std::string value_of(std::uint64_t round) {
    std::string value = "value " + std::to_string(round) + " of the witness";
    value.resize(value.size() + (round % 16 == 0 ? 2000 : round % 7), static_cast<char>('a' + round % 26));
    return value;
  }

  std::uint64_t round_ = 0, last_ = 0;
  bool refused_ = false;
  std::string heard_;
  std::vector<Answers> expected_;
};

}  // namespace tandem::net
