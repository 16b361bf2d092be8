#include "net/xdp/program.hpp"

#include <arpa/inet.h>

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/platform.hpp"

namespace tandem::net {
namespace {

// Offsets in a frame: Ethernet's header has 14 bytes, IPv4's 20, UDP's 8.
constexpr std::int16_t ether_type = 12, ip_version = 14, ip_fragment = 20, ip_protocol = 23, ip_destination = 30,
                       udp_destination = 36, udp_end = 42;
constexpr std::uint8_t version_4_without_options = 0x45;
constexpr std::uint16_t more_fragments_or_offset = 0x3fff;

// Registers. Those of the context, the frame and its end are the three arguments of the call at the end, too.
namespace reg {
constexpr std::uint8_t result = 0, context = 1, frame = 2, frame_end = 3, value = 4;
}

class Assembler {
 public:
  void add(std::uint8_t code, std::uint8_t to, std::uint8_t from, std::int16_t offset, std::int32_t number) {
    bpf_insn& next = all_.emplace_back();
    next.code = code;
    next.dst_reg = to & 0xf;
    next.src_reg = from & 0xf;
    next.off = offset;
    next.imm = number;
  }
  void load(std::uint8_t width, std::uint8_t to, std::uint8_t from, std::int16_t offset) {
    add(BPF_LDX | BPF_MEM | width, to, from, offset, 0);
  }
  void move(std::uint8_t to, std::uint8_t from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void set(std::uint8_t to, std::int32_t number) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number); }
  void plus(std::uint8_t to, std::int32_t number) { add(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, number); }
  void mask(std::uint8_t to, std::int32_t bits) { add(BPF_ALU64 | BPF_AND | BPF_K, to, 0, 0, bits); }
  // Passes the packet if the frame is shorter, or longer, than so many bytes.
  void pass_if_end_is(std::uint8_t comparison, std::int32_t bytes) {
    move(reg::value, reg::frame);
    plus(reg::value, bytes);
    pass_jumps_.push_back(all_.size());
    add(BPF_JMP | comparison | BPF_X, reg::value, reg::frame_end, 0, 0);
  }
  // Passes the packet unless the last 32 bits that were loaded are these.
  void pass_unless(std::uint32_t number) {
    pass_jumps_.push_back(all_.size());
    add(BPF_JMP32 | BPF_JNE | BPF_K, reg::value, 0, 0, std::bit_cast<std::int32_t>(number));
  }
  void pass() {
    pass_jumps_.push_back(all_.size());
    add(BPF_JMP | BPF_JA, 0, 0, 0, 0);
  }
  // Goes on behind the next target() if they are.
  void jump_if(std::uint32_t number) {
    jumps_.push_back(all_.size());
    add(BPF_JMP32 | BPF_JEQ | BPF_K, reg::value, 0, 0, std::bit_cast<std::int32_t>(number));
  }
  void target() { land(jumps_); }
  void exit() { add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
  void call(std::int32_t function) { add(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
  void load_map(std::uint8_t to, int map) {
    add(BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map);
    add(0, 0, 0, 0, 0);  // the upper half
  }
  std::vector<bpf_insn> finish() {
    land(pass_jumps_);
    set(reg::result, XDP_PASS);
    exit();
    return std::move(all_);
  }

 private:
  void land(std::vector<std::size_t>& jumps) {
    for (const std::size_t at : jumps) all_[at].off = static_cast<std::int16_t>(all_.size() - at - 1);
    jumps.clear();
  }

  std::vector<bpf_insn> all_;
  std::vector<std::size_t> jumps_, pass_jumps_;
};

}  // namespace

std::vector<bpf_insn> make_xdp_program(const XdpMatch& match, int map) {
  TD_ASSERT(match.addresses.size() <= xdp_addresses_max);
  std::uint32_t mac_begin;
  std::uint16_t mac_end;
  std::memcpy(&mac_begin, match.mac.data(), sizeof mac_begin);
  std::memcpy(&mac_end, match.mac.data() + sizeof mac_begin, sizeof mac_end);

  Assembler a;
  a.load(BPF_W, reg::frame, reg::context, offsetof(xdp_md, data));
  a.load(BPF_W, reg::frame_end, reg::context, offsetof(xdp_md, data_end));
  a.pass_if_end_is(BPF_JGT, udp_end);
  a.pass_if_end_is(BPF_JLT, static_cast<std::int32_t>(match.frame_bytes_max));
  a.load(BPF_H, reg::value, reg::frame, ether_type);
  a.pass_unless(htons(0x0800));
  a.load(BPF_B, reg::value, reg::frame, ip_protocol);
  a.pass_unless(IPPROTO_UDP);
  a.load(BPF_H, reg::value, reg::frame, udp_destination);
  a.pass_unless(htons(match.port));
  a.load(BPF_B, reg::value, reg::frame, ip_version);
  a.pass_unless(version_4_without_options);
  a.load(BPF_H, reg::value, reg::frame, ip_fragment);
  a.mask(reg::value, htons(more_fragments_or_offset));
  a.pass_unless(0);
  a.load(BPF_W, reg::value, reg::frame, 0);
  a.pass_unless(mac_begin);
  a.load(BPF_H, reg::value, reg::frame, sizeof mac_begin);
  a.pass_unless(mac_end);
  a.load(BPF_W, reg::value, reg::frame, ip_destination);
  for (const std::uint32_t address : match.addresses) a.jump_if(address);
  a.pass();
  a.target();
  a.load(BPF_W, reg::frame, reg::context, offsetof(xdp_md, rx_queue_index));
  a.load_map(reg::context, map);
  a.set(reg::frame_end, XDP_PASS);  // where there is no socket
  a.call(BPF_FUNC_redirect_map);
  a.exit();
  return a.finish();
}

}  // namespace tandem::net
