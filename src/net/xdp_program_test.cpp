// The program that the kernel runs for each packet, by an interpreter that knows the few instructions it has, beside a
// plain reading of the same rules. A load beyond the frame fails the test, as the kernel's verifier refuses it.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "codec/ethernet_builder.hpp"
#include "net/xdp/program.hpp"

namespace tandem::net {
namespace {

using ethernet::big;
using ethernet::frame_of;

constexpr int map = 7;
constexpr std::uint32_t queue = 3;
constexpr std::uint64_t redirected = 4242;  // what redirecting returns here
constexpr std::uint64_t context_at = 0x1000, frame_at = 0x100000;

class Interpreter {
 public:
  Interpreter(const std::vector<bpf_insn>& program, std::string_view frame) : program_(program), frame_(frame) {}

  std::uint64_t run() {
    r_[1] = context_at;
    for (std::size_t at = 0, steps = 0;; ++steps) {
      if (steps > program_.size()) throw std::logic_error("the program jumps back");
      const bpf_insn& i = program_.at(at);
      const auto number = static_cast<std::uint64_t>(std::int64_t{i.imm});
      const std::uint64_t other = BPF_SRC(i.code) == BPF_X ? r_.at(i.src_reg) : number;
      std::uint64_t& to = r_.at(i.dst_reg);
      bool jumps = false;
      switch (i.code) {
        case BPF_LDX | BPF_MEM | BPF_B:
        case BPF_LDX | BPF_MEM | BPF_H:
        case BPF_LDX | BPF_MEM | BPF_W:
          to = load(r_.at(i.src_reg) + static_cast<std::uint64_t>(std::int64_t{i.off}), BPF_SIZE(i.code));
          break;
        case BPF_LD | BPF_DW | BPF_IMM:
          EXPECT_EQ(i.src_reg, BPF_PSEUDO_MAP_FD);
          to = number;
          ++at;
          break;
        case BPF_ALU64 | BPF_MOV | BPF_X:
        case BPF_ALU64 | BPF_MOV | BPF_K:
          to = other;
          break;
        case BPF_ALU64 | BPF_ADD | BPF_K:
          to += other;
          break;
        case BPF_ALU64 | BPF_AND | BPF_K:
          to &= other;
          break;
        case BPF_JMP | BPF_JA:
          jumps = true;
          break;
        case BPF_JMP | BPF_JGT | BPF_X:
          jumps = to > other;
          break;
        case BPF_JMP | BPF_JLT | BPF_X:
          jumps = to < other;
          break;
        case BPF_JMP32 | BPF_JEQ | BPF_K:
          jumps = static_cast<std::uint32_t>(to) == static_cast<std::uint32_t>(other);
          break;
        case BPF_JMP32 | BPF_JNE | BPF_K:
          jumps = static_cast<std::uint32_t>(to) != static_cast<std::uint32_t>(other);
          break;
        case BPF_JMP | BPF_CALL:
          EXPECT_EQ(i.imm, BPF_FUNC_redirect_map);
          EXPECT_EQ(r_[1], std::uint64_t{map});
          EXPECT_EQ(r_[2], queue);
          EXPECT_EQ(r_[3], std::uint64_t{XDP_PASS});
          r_[0] = redirected;
          break;
        case BPF_JMP | BPF_EXIT:
          return r_[0];
        default:
          throw std::logic_error("an instruction that the interpreter does not know");
      }
      at += 1 + (jumps ? static_cast<std::size_t>(i.off) : 0);
    }
  }

 private:
  std::uint64_t load(std::uint64_t address, int size) const {
    if (address == context_at + offsetof(xdp_md, data)) return frame_at;
    if (address == context_at + offsetof(xdp_md, data_end)) return frame_at + frame_.size();
    if (address == context_at + offsetof(xdp_md, rx_queue_index)) return queue;
    const std::size_t bytes = size == BPF_B ? 1 : size == BPF_H ? 2 : 4;
    std::uint64_t value = 0;
    std::memcpy(&value, frame_.substr(address - frame_at).data(), bytes);
    if (address - frame_at + bytes > frame_.size()) throw std::out_of_range("a load beyond the frame");
    return value;
  }

  const std::vector<bpf_insn>& program_;
  std::string_view frame_;
  std::array<std::uint64_t, 11> r_{};
};

constexpr std::uint32_t frame_bytes_max = 1792;

XdpMatch match() {
  XdpMatch m{.mac = {2, 0xbb, 0xbb, 0xbb, 0xbb, 1}, .addresses = {}, .port = 11211, .frame_bytes_max = frame_bytes_max};
  for (const std::string_view address : {std::string_view("\x0a\0\0\x09", 4), std::string_view("\x0a\0\0\x01", 4)})
    std::memcpy(&m.addresses.emplace_back(), address.data(), address.size());
  return m;
}

bool is_redirected(std::string_view frame) {
  static const std::vector<bpf_insn> program = make_xdp_program(match(), map);
  const std::uint64_t result = Interpreter(program, frame).run();
  EXPECT_TRUE(result == redirected || result == XDP_PASS);
  return result == redirected;
}

// The same rules, read plainly.
bool is_the_servers(std::string_view f) {
  if (f.size() < 42 || f.size() > frame_bytes_max) return false;
  const std::string_view to = f.substr(30, 4);
  return f.substr(0, 6) == std::string_view("\x02\xbb\xbb\xbb\xbb\x01", 6) && big(f, 12) == 0x0800 && f[14] == 0x45 &&
         (big(f, 20) & 0x3fff) == 0 && f[23] == 17 && big(f, 36) == 11211 &&
         (to == std::string_view("\x0a\0\0\x09", 4) || to == std::string_view("\x0a\0\0\x01", 4));
}

TEST(XdpProgram, RedirectsTheServersRequests) {
  const std::string good = frame_of("get a\r\n");
  EXPECT_TRUE(is_the_servers(good));
  EXPECT_TRUE(is_redirected(good));
  EXPECT_TRUE(is_redirected(frame_of("")));
  EXPECT_TRUE(is_redirected(good + std::string(frame_bytes_max - good.size(), '\0')));
  EXPECT_FALSE(is_redirected(good + std::string(frame_bytes_max + 1 - good.size(), '\0')));
  EXPECT_TRUE(is_redirected(frame_of("x", {.to = std::string_view("\x0a\0\0\x09", 4)})));
  EXPECT_FALSE(is_redirected(frame_of("x", {.to = std::string_view("\x0a\0\0\x02", 4)})));
  EXPECT_FALSE(is_redirected(frame_of("x", {.to_port = 11212})));
  for (std::size_t bytes = 0; bytes <= good.size(); ++bytes)
    EXPECT_EQ(is_redirected(good.substr(0, bytes)), bytes >= 42);
}

// Each bit of the headers, alone.
TEST(XdpProgram, AgreesWithItsRulesBitByBit) {
  const std::string good = frame_of("get a\r\n");
  unsigned passed = 0;
  for (std::size_t bit = 0; bit < std::size_t{8} * 42; ++bit) {
    std::string frame = good;
    frame[bit / 8] = static_cast<char>(frame[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(is_redirected(frame), is_the_servers(frame)) << "bit " << bit;
    if (!is_the_servers(frame)) ++passed;
  }
  // Of 6 + 2 + 1 + 1 + 2 bytes each bit, of 2 bytes 14, and of the address all but the one that makes it the other.
  EXPECT_EQ(passed, 8u * (6 + 2 + 1 + 1 + 2) + 14 + 31);
}

TEST(XdpProgram, AgreesWithItsRulesOnNoise) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string frame = frame_of(std::string(random() % 40, 'x'));
    for (auto changes = random() % 3; changes != 0; --changes)
      frame[random() % frame.size()] = static_cast<char>(random());
    frame.resize(random() % 8 == 0 ? random() % 60 : frame.size());
    ASSERT_EQ(is_redirected(frame), is_the_servers(frame));
  }
}

TEST(XdpProgram, TakesAsManyAddressesAsItSays) {
  XdpMatch many = match();
  many.addresses.insert(many.addresses.begin(), xdp_addresses_max - many.addresses.size(), 1);
  const std::vector<bpf_insn> program = make_xdp_program(many, map);
  const std::string frame = frame_of("x");
  EXPECT_EQ(Interpreter(program, frame).run(), redirected);
}

}  // namespace
}  // namespace tandem::net
