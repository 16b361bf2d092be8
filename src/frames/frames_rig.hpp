// For tests of frames: columns over a simulated device.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "device/sim/sim_device.hpp"
#include "frames/frame_runs.hpp"

namespace tandem {

// Columns, their arena, and a device with an empty index: every key is a miss.
struct FramesRig {
  static constexpr std::uint32_t usual_keys = 4096;

  explicit FramesRig(std::uint64_t bytes, std::uint32_t keys = usual_keys, std::uint64_t reply_bytes = 1 << 18)
      : input(*device, bytes),
        buckets(*device, 2),
        cursors(*device, frame_parts_max),
        columns(*device, bytes, keys, reply_bytes) {
    std::fill_n(input.data(), bytes, '\n');
    EXPECT_EQ(stream->zero(buckets.bytes_at(), buckets.bytes()), DeviceStatus::ok);
  }

  void put(std::uint64_t at, std::string_view bytes) { std::memcpy(input.data() + at, bytes.data(), bytes.size()); }
  void launch(FrameAnswers answers = FrameAnswers::replies) {
    FramesArguments a;
    a.answers = answers;
    a.index = {buckets.at(), {.mask = 1}};
    a.cursors = cursors.at();
    a.rules = frame_rules(seed);
    a.parts = 1;
    a.part[0] = columns.part(input.at());
    ASSERT_EQ(stream->zero(cursors.bytes_at(), cursors.bytes()), DeviceStatus::ok);
    if (ahead != nullptr) {
      ASSERT_EQ(stream->launch(*ahead, a), DeviceStatus::ok);
    }
    ASSERT_EQ(stream->launch(answer_frames, a), DeviceStatus::ok);
    ASSERT_EQ(stream->wait(stream->mark(), std::chrono::minutes(1)), DeviceStatus::ok);
  }
  static constexpr std::uint64_t seed = 7;
  const Kernel<FramesArguments>* ahead = nullptr;  // is launched, too
  // Begins to read; keys of `not_final` are misses that the host does not confirm.
  void begin(const std::vector<std::string>& not_final = {}) {
    columns.begin([&](Fingerprint f) {
      return std::ranges::none_of(not_final, [f](const std::string& key) {
        const Fingerprint of_key = fingerprint_of(key, seed);
        return of_key.signature == f.signature && of_key.hash == f.hash;
      });
    });
    runs.begin(columns, input.data());
  }
  bool finds(std::uint64_t at) { return runs.find(input.data() + at); }
  bool take_run(std::uint64_t at, FrameRun& run) { return finds(at) && (run = runs.run(), true); }
  bool is_whole(std::uint64_t at, std::uint64_t end) { return runs.find_whole(input.data() + at, input.data() + end); }
  std::string reply(const FrameRun& run) const { return {columns.reply(run), run.reply_bytes}; }
  std::uint64_t left(FrameLeft why) const { return columns.left()[static_cast<std::size_t>(why)]; }

  std::unique_ptr<SimDevice> device = make_sim_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  PinnedArray<char> input;
  DeviceArray<Bucket> buckets;
  DeviceArray<FrameCursors> cursors;
  FrameColumns columns;
  FrameRuns runs{seed};
};

}  // namespace tandem
