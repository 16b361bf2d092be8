#include "options/suggest.hpp"

#include <gtest/gtest.h>

#include <array>

namespace tandem::cli {
namespace {

TEST(Suggest, ASlipHasItsName) {
  constexpr std::array<std::string_view, 6> names = {"port", "udp-port", "memory", "memory-file", "threads", "tls"};
  EXPECT_EQ(nearest("prot", names), "port");       // exchanged
  EXPECT_EQ(nearest("pprt", names), "port");       // replaced
  EXPECT_EQ(nearest("thread", names), "threads");  // missing
  EXPECT_EQ(nearest("memoryy", names), "memory");  // too many
  EXPECT_EQ(nearest("udpport", names), "udp-port");
  EXPECT_EQ(nearest("mem0ri", names), "memory");
  EXPECT_EQ(nearest("udp", names), "udp-port");  // prefix of exactly one
  EXPECT_EQ(nearest("memory-f", names), "memory");
}

TEST(Suggest, WhatIsFarHasNone) {
  constexpr std::array<std::string_view, 4> names = {"port", "memory", "memory-file", "threads"};
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("x", names), "");
  EXPECT_EQ(nearest("mem", names), "");  // prefix of two
  EXPECT_EQ(nearest("postgres", names), "");
  EXPECT_EQ(nearest(std::string(65, 'p'), names), "");
  EXPECT_EQ(nearest("port", {}), "");
}

TEST(Suggest, SaysIt) {
  constexpr std::array<std::string_view, 1> names = {"port"};
  EXPECT_EQ(did_you_mean("prot", names, "--"), "; did you mean --port?");
  EXPECT_EQ(did_you_mean("memory", names, "--"), "");
}

}  // namespace
}  // namespace tandem::cli
