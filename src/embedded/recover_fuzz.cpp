// Arbitrary changes to a memory file's bytes: the store starts, serves, and stays within its memory. A small file with
// items of several classes and a huge one is made once. The input is a list of changes to a copy of it, most of them
// aimed at words that recovery reads:
//
//   [what][where 24 bits][value 64 bits] ...
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "heap/memory_file.hpp"
#include "tandem/store.hpp"

using namespace tandem;

namespace {

constexpr std::uint64_t memory_bytes = std::uint64_t{8} << 20;

Options options(const std::string& path) {
  Options o;
  o.memory_bytes = memory_bytes;
  o.item_bytes_max = 4 << 20;
  o.huge_pages = false;
  o.memory_file = path;
  return o;
}

// A file that only this process can name.
struct Scratch {
  Scratch() : path("/dev/shm/tandem-recover_fuzz-XXXXXX"), fd(mkostemp(path.data(), O_CLOEXEC)) { TD_ASSERT(fd >= 0); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    close(fd);
    unlink(path.c_str());
  }
  std::string path;
  const int fd;
};

std::uint64_t state_at() { return offsetof(FileHeader, state); }
constexpr std::uint64_t used_pages = 6;
constexpr std::uint64_t used_bytes = MemoryFile::pages_at + used_pages * page_bytes;

struct Original {
  Original() {
    const Scratch file;
    {
      Store store(options(file.path));
      for (int i = 0; i < 50; ++i) {
        store.set("key " + std::to_string(i), std::string(static_cast<std::size_t>(i) * 40, 'v'));
      }
    }
    std::uint64_t state = FileHeader::in_use;  // as if it had been killed
    TD_ASSERT(pwrite(file.fd, &state, sizeof state, static_cast<off_t>(state_at())) == sizeof state);
    bytes.resize(used_bytes);
    TD_ASSERT(pread(file.fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    // A huge item in place of single pages: the pages of runs are far away.
    const std::uint32_t head = 4;
    Item* const item =
        reinterpret_cast<Item*>(bytes.data() + MemoryFile::pages_at + (head - 1) * page_bytes + large_first_bytes);
    item->set_fixed(word::CasLow::put(word::Huge::put(word::KeyBytes::put(0, 4), 1), 40));
    item->state_word = static_cast<std::uint64_t>(ItemState::live);
    std::memcpy(item->bytes() + sizeof(Item), "huge", 4);
    for (std::uint32_t p = head; p < head + 3; ++p) {
      const std::uint16_t t = tag::make(p == head ? PageState::huge_head : PageState::huge_body, huge_class);
      std::memcpy(bytes.data() + MemoryFile::tags_at + 2 * p, &t, sizeof t);
    }
    // Two items locked for a rewrite in place: one has a record.
    for (std::uint32_t slot = 0, found = 0; slot < 64 && found < 2; ++slot) {
      Item* const small = reinterpret_cast<Item*>(bytes.data() + MemoryFile::pages_at + slot * granule_bytes);
      const std::uint64_t live = small->state_word.load();
      if (Item::state_of(live) != ItemState::live) continue;
      auto* const redo = reinterpret_cast<RedoRecord*>(bytes.data() + MemoryFile::redo_at);
      if (found++ == 0)
        redo->write(page_location(1) + slot, {live, small->fixed()}, {small->value(), small->small_value_bytes()});
      small->state_word = rewriting_state(live);
    }
    const std::uint64_t value_bytes = 2 * page_bytes + 77;
    std::memcpy(bytes.data() + MemoryFile::huge_value_bytes_at + 8 * head, &value_bytes, sizeof value_bytes);
  }
  std::vector<char> bytes;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Original original;
  static const Scratch file;
  TD_ASSERT(ftruncate(file.fd, 0) == 0);
  TD_ASSERT(pwrite(file.fd, original.bytes.data(), used_bytes, 0) == static_cast<ssize_t>(used_bytes));
  for (; size >= 12; data += 12, size -= 12) {
    const std::uint64_t where = std::uint64_t{data[1]} | std::uint64_t{data[2]} << 8 | std::uint64_t{data[3]} << 16;
    std::uint64_t at = 0;
    std::size_t bytes = 8;
    switch (data[0] % 7) {
      case 0:  // the header's changing words
        at = state_at() + where % (sizeof(FileHeader) - state_at() - 8);
        break;
      case 1:
        at = where % 4096;
        break;
      case 2:
        at = MemoryFile::tags_at + 2 * (where % (used_pages + 3));
        bytes = 2;
        break;
      case 3:
        at = MemoryFile::huge_value_bytes_at + 8 * (where % (used_pages + 3));
        break;
      case 4:  // a header of an item
        at = MemoryFile::pages_at + where % used_pages * page_bytes + (where >> 3 & 0x7ff) * 16;
        break;
      case 5:  // a redo record's words
        at = MemoryFile::redo_at + where % 3 * sizeof(RedoRecord) + (where >> 2) % 4 * 8;
        break;
      default:
        at = MemoryFile::pages_at + where % (used_bytes - MemoryFile::pages_at - 8);
        break;
    }
    TD_ASSERT(pwrite(file.fd, data + 4, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes));
  }
  if (size != 0) TD_ASSERT(ftruncate(file.fd, static_cast<off_t>(used_bytes * data[0] / 255)) == 0);

  try {
    Store store(options(file.path));
    std::uint64_t items = 0;
    store.for_each([&](std::string_view key, const Reply& item) {
      TD_ASSERT(!key.empty() && key.size() <= key_bytes_max);
      std::uint64_t sum = 0;
      for (const char c : item.value) sum += static_cast<unsigned char>(c);  // every byte can be read
      TD_ASSERT(sum <= item.value.size() * 255);
      ++items;
    });
    TD_ASSERT(items == store.stats().items);
    for (int i = 0; i < 300; ++i) {
      const std::string key = "new " + std::to_string(i);
      const Code code = store.set(key, std::string(static_cast<std::size_t>(i) * 101, 'n'));
      TD_ASSERT(code == Code::stored || code == Code::out_of_memory);
      if (code == Code::stored) TD_ASSERT(store.get(key).has_value());
    }
    TD_ASSERT(store.stats().memory_used_bytes <= memory_bytes);
  } catch (const MemoryFileError& error) {
    TD_ASSERT(*error.what() != 0);  // no longer a file of Tandem's
  }
  return 0;
}
