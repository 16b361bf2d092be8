// The kernel's arguments and its host entry: the body of frames-inl.hpp with one thread.
#include "frames/frames.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/hash.hpp"
#include "codec/reply.hpp"
#include "frames/frames-inl.hpp"
#include "index/cuckoo/table_kernels.hpp"

namespace tandem {
namespace {

// One thread, which takes every turn.
class HostTile {
 public:
  template <class F>
  void each(std::uint32_t n, F f) {
    for (std::uint32_t i = 0; i < n; ++i) f(i);
  }
  template <class F, class G>
  void both(std::uint32_t n, F f, std::uint32_t m, G g) {
    each(n, f);
    each(m, g);
  }
  template <class F>
  void once(F f) {
    f();
  }
  template <class N>
  std::uint32_t scan(N* a, std::uint32_t n) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t one = a[i];
      a[i] = static_cast<N>(sum);
      sum += one;
    }
    return sum;
  }
  void lower(std::uint32_t* x, std::uint32_t v) { *x = std::min(*x, v); }
  void add(std::uint32_t* x, std::uint32_t v) { *x += v; }
  std::uint32_t take(std::uint32_t* cursor, std::uint32_t n) { return std::exchange(*cursor, *cursor + n); }
  void search(const SearchedTable& table, const Fingerprint* f, std::uint32_t n, std::uint32_t* location) {
    search_in_turn(table, f, n, location);
  }
  bool mark_read(const ItemImages& images, std::uint32_t location) {
    std::uint32_t& marks = images.marks[location / 32];
    const std::uint32_t mine = 1u << location % 32;
    const bool was = (marks & mine) != 0;
    marks |= mine;
    return was;
  }
  const std::uint32_t* columns() const { return short_hash::columns.data(); }
};

bool host_answer_frames(const FramesArguments& a, const HostMemory& memory) noexcept {
  const std::unique_ptr<frames::Scratch> scratch(new (std::nothrow) frames::Scratch);
  if (scratch == nullptr) return false;
  const SearchedTable table{memory.at(a.index.buckets), a.index.shape};
  const ItemImages images{memory.at(a.images.granules), memory.at(a.images.marks), a.images.count,
                          a.images.item_granules};
  FrameCursors* const cursors = memory.at(a.cursors);
  HostTile tile;
  for (std::uint32_t p = 0; p < a.parts; ++p) {
    const FramePart& part = a.part[p];
    const frames::Job job{.input = memory.at(DevicePtr<const char>(part.input)),
                          .pieces = memory.at(DevicePtr<const FramePiece>(part.pieces)),
                          .tiles = memory.at(DevicePtr<const FrameTile>(part.tiles)),
                          .answers = memory.at(DevicePtr<FrameTileAnswer>(part.answers)),
                          .runs = memory.at(DevicePtr<FrameRun>(part.runs)),
                          .misses = memory.at(DevicePtr<FrameMiss>(part.misses)),
                          .reads = memory.at(DevicePtr<Location>(part.reads)),
                          .replies = memory.at(DevicePtr<char>(part.replies)),
                          .cursors = cursors + p,
                          .runs_max = part.runs_max,
                          .misses_max = part.misses_max,
                          .reads_max = part.reads_max,
                          .reply_bytes_max = part.reply_bytes_max,
                          .now_s = a.rules.now_s,
                          .cas = part.cas,
                          .table = table,
                          .images = images};
    for (std::uint32_t t = 0; t < part.tile_count; ++t) {
      if (a.answers == FrameAnswers::locations) {
        frames::answer_tile<frames::Forms::located>(tile, *scratch, job, a.rules, t);
      } else {
        frames::answer_tile<frames::Forms::lines_and_raw>(tile, *scratch, job, a.rules, t);
      }
    }
  }
  return true;
}

}  // namespace

static_assert(frame_opaque_bytes_max == codec::opaque_bytes_max);

std::uint64_t FramesArguments::queries() const noexcept {
  constexpr std::uint32_t usual_line_bytes = 16;
  std::uint64_t sum = 0;
  for (std::uint32_t p = 0; p < std::min(parts, frame_parts_max); ++p)
    sum += std::uint64_t{part[p].tile_count} * (tile_bytes / usual_line_bytes);
  return sum;
}

void FramesArguments::memory(MemoryUse& use) const {
  if (parts > frame_parts_max || !is_table(index.shape)) return use.refuse();
  use.add(index.buckets, index.shape.buckets());
  images.memory(use);
  use.add(cursors, parts);
  for (std::uint32_t p = 0; p < parts; ++p) {
    const FramePart& one = part[p];
    use.add(DevicePtr<const char>(one.input), one.input_bytes);
    use.add(DevicePtr<const FramePiece>(one.pieces), one.piece_count);
    use.add(DevicePtr<const FrameTile>(one.tiles), one.tile_count);
    use.add(DevicePtr<FrameTileAnswer>(one.answers), one.tile_count);
    use.add(DevicePtr<FrameRun>(one.runs), one.runs_max);
    use.add(DevicePtr<FrameMiss>(one.misses), one.misses_max);
    use.add(DevicePtr<Location>(one.reads), one.reads_max);
    use.add(DevicePtr<char>(one.replies), one.reply_bytes_max);
  }
}

FrameRules frame_rules(std::uint64_t seed) noexcept {
  FrameRules rules{.seed = seed};
  static_assert(sizeof rules.secret == sizeof XXH3_kSecret);
  std::memcpy(rules.secret.data(), XXH3_kSecret, sizeof rules.secret);
  return rules;
}

const Kernel<FramesArguments> answer_frames{"answer frames", host_answer_frames,
                                            cuda_entry<FramesArguments, cuda_answer_frames>()};

}  // namespace tandem
