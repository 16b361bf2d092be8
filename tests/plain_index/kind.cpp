// The plain index as a kind of index, and the preset that has it: linked into a program of tests, this makes it one
// that serves with `--preset plain`.
#include "engine/index_kinds-inl.hpp"
#include "plain_index.hpp"
#include "preset/preset.hpp"
#include "task/code-inl.hpp"

namespace tandem {
namespace {

constexpr KindCode plain_code = code_of<PlainIndex>();

// Before any object that reads the rows.
[[gnu::constructor(200)]] void add_plain_kind() {
  add_index_kind(kind_row<PlainIndex>(plain_code));
  add_preset({.preset = {},
              .name = "plain",
              .what = "the host runs everything, over a sorted map (tests)",
              .index_kind = PlainIndex::kind,
              .placement = Placement::host,
              .placement_with_values = Placement::host,
              .offload = Offload::never,
              .needs_device = false,
              .sets_cycle = false,
              .has_threshold = false});
}

}  // namespace
}  // namespace tandem
