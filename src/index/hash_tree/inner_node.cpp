#include "index/hash_tree/inner_node.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <stdexcept>

namespace tandem {

namespace {

void fill_runs(InnerNode& node) noexcept {
  auto* const runs = const_cast<InnerNode::Run*>(node.runs());
  auto* const tails = const_cast<std::int32_t*>(node.tails());
  for (std::uint32_t at = 0, end = 0; at < node.count; at = end) {
    while (end < node.count && node.heads()[end] == node.heads()[at]) ++end;
    const std::size_t common = common_bytes(node.separator(at), node.separator(end - 1));
    runs[at] = {static_cast<std::uint8_t>(end - at), static_cast<std::uint8_t>(common)};
    for (std::uint32_t i = at; i < end; ++i) tails[i] = InnerNode::head_of(node.separator(i), common);
  }
}

}  // namespace

std::uint32_t InnerNode::child_of(std::string_view key, bool is_below) const noexcept {
  if (count == 0) return 0;
  if (prefix_bytes > KeyStart::bytes_max) {
    const int order = key.substr(0, prefix_bytes).compare(separator(0).substr(0, prefix_bytes));
    if (order != 0) return order < 0 ? 0 : count;
  } else if (prefix_bytes != 0) {
    // The node's first line has the prefix, and no separator is read.
    char start[KeyStart::bytes_max] = {};
    key.copy(start, sizeof start);
    if (!has_prefix(start)) return child_without_prefix(start);
  }
  const std::int32_t head = head_of(key, prefix_bytes);
  return child_at(heads_below(head), head, key, is_below);
}

void InnerNode::prefetch_child_of(std::string_view key) const noexcept {
  const std::uint32_t block = below_in(last_heads, head_of(key, prefix_bytes));
  constexpr std::uint32_t entries_of_line = cache_line_bytes / sizeof(void*);
  prefetch_read(heads() + block * block_heads);
  void* const* const entries = children() + block * block_heads;
  for (std::uint32_t i = 0; i <= block_heads; i += entries_of_line)
    prefetch_read(static_cast<const void*>(entries + i));
}

std::uint32_t InnerNode::child_in_run(std::uint32_t at, std::string_view key, bool is_below) const noexcept {
  if (at == count) return count;  // what fills up the heads
  const Run run = runs()[at];
  const std::uint32_t end = at + run.length;
  const int order = key.substr(0, run.common_bytes).compare(separator(at).substr(0, run.common_bytes));
  if (order != 0) return order < 0 ? at : end;
  const auto [first, last] = std::equal_range(tails() + at, tails() + end, head_of(key, run.common_bytes));
  std::uint32_t below = static_cast<std::uint32_t>(first - tails()), above = static_cast<std::uint32_t>(last - tails());
  while (below != above) {
    const std::uint32_t middle = below + (above - below) / 2;
    const bool goes_on = is_below ? separator(middle) < key : separator(middle) <= key;
    (goes_on ? below : above) = middle + (goes_on ? 1 : 0);
  }
  return below;
}

InnerTree::InnerTree(std::uint32_t node_children, MemoryBudget& budget, EpochDomain& epochs, Leaf* only)
    : node_children_(node_children), budget_(budget), epochs_(epochs) {
  if (node_children < children_min || node_children > children_max)
    throw std::invalid_argument("a node of the tree has 8 to 256 children");
  const Entry entry{{}, only};
  InnerNode* const root = make(0, {&entry, 1});
  if (root == nullptr) {
    budget_.give_back(reserve_bytes_);
    throw std::bad_alloc();
  }
  root_.store(root, std::memory_order_release);
  fill_reserve();  // if there is no memory for it, the first split takes what it needs
}

InnerTree::~InnerTree() {
  free_all(root_.load(std::memory_order_relaxed));
  while (retired_first_ != nullptr) {
    InnerNode* const node = retired_first_;
    retired_first_ = node->next;
    free(node);
  }
  budget_.give_back(reserve_bytes_);
}

void InnerTree::free_all(InnerNode* node) noexcept {
  if (node->level != 0) {
    for (std::uint32_t i = 0; i <= node->count; ++i) free_all(static_cast<InnerNode*>(node->children()[i]));
  }
  free(node);
}

Leaf* InnerTree::find(std::string_view key, bool is_below) const noexcept {
  const InnerNode* node = root_.load(std::memory_order_acquire);
  for (;;) {
    void* const child = node->children()[node->child_of(key, is_below)];
    if (node->level == 0) return static_cast<Leaf*>(child);
    node = static_cast<const InnerNode*>(child);
    prefetch_read(node->last_heads);
  }
}

Leaf* InnerTree::last_leaf() const noexcept {
  const InnerNode* node = root_.load(std::memory_order_acquire);
  while (node->level != 0) node = static_cast<const InnerNode*>(node->children()[node->count]);
  return static_cast<Leaf*>(node->children()[node->count]);
}

InnerTree::Path InnerTree::path_to(std::string_view key) const noexcept {
  Path path;
  const InnerNode* node = root_.load(std::memory_order_relaxed);
  for (;;) {
    TD_ASSERT(path.levels < levels_max);
    const std::uint32_t at = node->child_of(key, false);
    path.node[path.levels] = node;
    path.child[path.levels++] = at;
    if (node->level == 0) return path;
    node = static_cast<const InnerNode*>(node->children()[at]);
  }
}

bool InnerTree::fill_reserve() noexcept {
  if (reserve_bytes_ >= reserve_bytes_max / 2) return true;
  const std::uint64_t bytes = reserve_bytes_max - reserve_bytes_;
  if (!budget_.take(bytes)) return false;
  reserve_bytes_ += bytes;
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

// Nodes made and nodes displaced so far, and those of the level that was made last, for the level above.
struct InnerTree::Change {
  InnerNode* made[2 * levels_max + 1];
  const InnerNode* displaced[2 * levels_max];
  std::uint32_t made_count = 0, displaced_count = 0;
  Entry up[2];
  std::uint32_t up_count = 0;

  // A node's memory, or nullptr.
  static void* allocate(InnerTree& tree, std::uint32_t bytes) noexcept {
    if (tree.reserve_bytes_ >= bytes) {
      tree.reserve_bytes_ -= bytes;
    } else if (tree.budget_.take(bytes)) {
      tree.bytes_.fetch_add(bytes, std::memory_order_relaxed);
    } else {
      return nullptr;
    }
    void* const memory = ::operator new(bytes, std::align_val_t{alignof(InnerNode)}, std::nothrow);
    if (memory == nullptr) tree.reserve_bytes_ += bytes;
    return memory;
  }
  // The node with another child in the place of one; its separators stay.
  static InnerNode* copy(InnerTree& tree, const InnerNode& node, std::uint32_t at, void* child) noexcept {
    void* const memory = allocate(tree, node.bytes);
    if (memory == nullptr) return nullptr;
    auto* const made = new (memory) InnerNode(node);
    std::memcpy(static_cast<void*>(made + 1), &node + 1, node.bytes - sizeof node);
    const_cast<void**>(made->children())[at] = child;
    return made;
  }
  // node: made, or nullptr: nothing that was made is needed.
  bool add(InnerTree& tree, InnerNode* node, std::string_view low) noexcept {
    if (node == nullptr) {
      for (std::uint32_t i = 0; i < made_count; ++i) tree.free(made[i]);
      return false;
    }
    made[made_count++] = node;
    up[up_count++] = {low, node};
    return true;
  }
};

InnerNode* InnerTree::make(std::uint32_t level, std::span<const Entry> entries) noexcept {
  const auto count = static_cast<std::uint32_t>(entries.size() - 1);
  std::size_t text_bytes = 0;
  for (std::uint32_t i = 1; i <= count; ++i) text_bytes += entries[i].low.size();
  const std::uint32_t blocks = InnerNode::blocks_of(count);
  const std::size_t children_at = sizeof(InnerNode) + blocks * InnerNode::block_heads * sizeof(std::int32_t);
  constexpr std::size_t separator_bytes = sizeof(std::int32_t) + sizeof(InnerNode::Run) + sizeof(std::uint16_t);
  const auto bytes =
      static_cast<std::uint32_t>(children_at + entries.size() * sizeof(void*) + count * separator_bytes + text_bytes);
  void* const memory = Change::allocate(*this, bytes);
  if (memory == nullptr) return nullptr;
  auto* const node = new (memory) InnerNode;
  node->count = static_cast<std::uint16_t>(count);
  node->level = static_cast<std::uint16_t>(level);
  node->children_at = static_cast<std::uint16_t>(children_at);
  node->bytes = bytes;
  if (count != 0) {
    // Keys outside the first and the last separator may lack what these have in common. A new root has few, so those of
    // its children are asked.
    std::string_view first = entries[1].low, last = entries[count].low;
    if (level != 0) {
      const auto& left = *static_cast<const InnerNode*>(entries[0].child);
      const auto& right = *static_cast<const InnerNode*>(entries[count].child);
      if (left.count != 0) first = left.separator(0);
      if (right.count != 0) last = right.separator(right.count - 1u);
    }
    node->prefix_bytes = static_cast<std::uint16_t>(common_bytes(first, last));
    char prefix[KeyStart::bytes_max] = {}, mask[KeyStart::bytes_max] = {};
    std::memset(mask, 0xff, entries[1].low.copy(prefix, std::min<std::size_t>(node->prefix_bytes, sizeof prefix)));
    node->prefix = KeyStart::of(prefix);
    node->mask = KeyStart::of(mask);
  }
  auto* const heads = const_cast<std::int32_t*>(node->heads());
  std::uint32_t end = 0;
  for (std::uint32_t i = 0; i <= count; ++i) const_cast<void**>(node->children())[i] = entries[i].child;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view low = entries[i + 1].low;
    heads[i] = InnerNode::head_of(low, node->prefix_bytes);
    std::copy(low.begin(), low.end(), const_cast<char*>(node->text()) + end);
    end += static_cast<std::uint32_t>(low.size());
    const_cast<std::uint16_t*>(node->ends())[i] = static_cast<std::uint16_t>(end);
  }
  fill_runs(*node);
  constexpr std::int32_t highest = std::numeric_limits<std::int32_t>::max();
  std::fill(heads + count, heads + blocks * InnerNode::block_heads, highest);
  std::fill(std::begin(node->last_heads), std::end(node->last_heads), highest);
  for (std::uint32_t i = 0; i < blocks; ++i) node->last_heads[i] = heads[(i + 1) * InnerNode::block_heads - 1];
  return node;
}

void InnerTree::free(InnerNode* node) noexcept {
  const std::uint32_t bytes = node->bytes;
  ::operator delete(node, std::align_val_t{alignof(InnerNode)});
  if (reserve_bytes_ < reserve_bytes_max) {
    reserve_bytes_ += bytes;
  } else {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    budget_.give_back(bytes);
  }
}

void InnerTree::reclaim() noexcept {
  if (retired_first_ == nullptr) return;
  const std::uint64_t safe = epochs_.safe_stamp();
  while (retired_first_ != nullptr && retired_first_->stamp < safe) {
    InnerNode* const node = retired_first_;
    retired_first_ = node->next;
    if (retired_first_ == nullptr) retired_last_ = nullptr;
    free(node);
  }
}

bool InnerTree::add_node(Change& change, std::uint32_t level, std::span<const Entry> entries) noexcept {
  return change.add(*this, make(level, entries), entries[0].low);
}

void InnerTree::publish(Change& change, InnerNode* root) noexcept {
  root_.store(root, std::memory_order_release);
  const std::uint64_t stamp = epochs_.retire_stamp();
  for (std::uint32_t i = 0; i < change.displaced_count; ++i) {
    auto* const node = const_cast<InnerNode*>(change.displaced[i]);
    node->stamp = stamp;
    node->next = nullptr;
    (retired_last_ != nullptr ? retired_last_->next : retired_first_) = node;
    retired_last_ = node;
  }
}

// Its memory must be had before that of the nodes it replaces is free.
bool InnerTree::is_too_large(std::span<const Entry> entries) const noexcept {
  if (entries.size() > node_children_) return true;
  std::size_t text_bytes = 0;
  for (const Entry& entry : entries.subspan(1)) text_bytes += entry.low.size();
  return text_bytes > text_bytes_large;
}

// Level by level upwards. A node that has become too small joins a neighbour; one that is too large becomes two.
bool InnerTree::replace(const Path& path, std::uint32_t first, std::uint32_t count,
                        std::span<const Entry> now) noexcept {
  reclaim();
  Change change;
  Entry all[2 * children_max + 2];
  Entry above[2];
  for (std::uint32_t depth = path.levels; depth-- != 0;) {
    std::uint32_t n = 0;
    const auto add_children = [&](const InnerNode& node, std::uint32_t from, std::uint32_t to, std::string_view low) {
      for (std::uint32_t i = from; i < to; ++i) all[n++] = {i == 0 ? low : node.separator(i - 1), node.children()[i]};
    };
    const InnerNode& node = *path.node[depth];
    const InnerNode* const parent = depth != 0 ? path.node[depth - 1] : nullptr;
    std::uint32_t at = depth != 0 ? path.child[depth - 1] : 0, width = 1;
    const bool joins = parent != nullptr && parent->count != 0 &&
                       node.count + 1 + now.size() - count < std::min(node_children_ / 4, joining_children);
    if (count == 1 && now.size() == 1 && !joins) {
      // Most changes of a node above the lowest ones: nodes are large, and a copy is quick.
      change.displaced[change.displaced_count++] = &node;
      change.up_count = 0;
      if (!change.add(*this, Change::copy(*this, node, first, now[0].child), {})) return false;
      above[0] = change.up[0];
      now = {above, 1};
      first = at;
      continue;
    }
    if (joins && at == parent->count) {
      const auto& left = *static_cast<const InnerNode*>(parent->children()[at - 1]);
      add_children(left, 0, left.count + 1, {});
      change.displaced[change.displaced_count++] = &left;
    }
    const std::string_view low = n != 0 ? parent->separator(at - 1) : std::string_view();
    add_children(node, 0, first, low);
    for (std::size_t i = 0; i < now.size(); ++i) {
      all[n++] = {i != 0 ? now[i].low : first == 0 ? low : node.separator(first - 1), now[i].child};
    }
    add_children(node, first + count, node.count + 1, low);
    if (joins && at == parent->count) {
      --at;
      width = 2;
    } else if (joins) {
      const auto& right = *static_cast<const InnerNode*>(parent->children()[at + 1]);
      add_children(right, 0, right.count + 1, parent->separator(at));
      change.displaced[change.displaced_count++] = &right;
      width = 2;
    }
    change.displaced[change.displaced_count++] = &node;
    change.up_count = 0;
    const std::uint32_t in_first = is_too_large({all, n}) ? n / 2 : n;
    if (!add_node(change, node.level, {all, in_first})) return false;
    if (in_first != n && !add_node(change, node.level, {all + in_first, n - in_first})) return false;
    std::copy_n(change.up, change.up_count, above);
    now = {above, change.up_count};
    first = at;
    count = width;
  }
  return replace_root(change, path.node[0]->level);
}

bool InnerTree::replace_root(Change& change, std::uint32_t level) noexcept {
  if (change.up_count == 2) {
    change.up_count = 0;
    const Entry two[2] = {change.up[0], change.up[1]};
    if (!add_node(change, level + 1, two)) return false;
  }
  auto* root = static_cast<InnerNode*>(change.up[0].child);
  InnerNode* const made = root;
  while (root->level != 0 && root->count == 0) root = static_cast<InnerNode*>(root->children()[0]);
  publish(change, root);
  // Roots with one child that were skipped; only the topmost can be such a node, since all other nodes have neighbours.
  if (made != root) free(made);
  return true;
}

}  // namespace tandem
