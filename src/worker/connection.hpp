// One client's connection as its worker sees it. Memory: this struct (see the static_assert in connections.cpp) while
// the client is quiet; input that is not yet a whole request, unsent output and a large value being received are
// allocated when they exist.
//
// Thread safety: the worker's thread, except for the atomic members, which `stats conns` reads under the lock of
// Connections.
#pragma once
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "codec/protocol.hpp"
#include "heap/heap.hpp"
#include "lane/lane.hpp"
#include "net/limits.hpp"
#include "net/tls_session.hpp"
#include "worker/recorder.hpp"
#include "worker/stream.hpp"

namespace tandem::net {

// malloc's memory, for buffers that may be refused: operator new would use the memory reserve for them. Throws
// std::bad_alloc.
template <class T>
struct RefusableAllocator {
  using value_type = T;
  RefusableAllocator() = default;
  template <class U>
  RefusableAllocator(const RefusableAllocator<U>&) noexcept {}
  T* allocate(std::size_t n) {
    void* const memory = n <= SIZE_MAX / sizeof(T) ? std::malloc(n * sizeof(T)) : nullptr;
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* p, std::size_t) noexcept { std::free(p); }
  template <class U>
  bool operator==(const RefusableAllocator<U>&) const noexcept {
    return true;
  }
};

// Bytes that wait between passes: an incomplete request, or requests of a connection that must wait its turn. A long
// one (a get of very many keys) is received straight into it.
class KeptInput {
 public:
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  const char* data() const noexcept { return data_.get(); }
  // Replaces what is kept; the new bytes may be part of the old ones. None: frees the memory. Throws std::bad_alloc if
  // it has to grow and cannot, then nothing has changed; so does reserve().
  void assign(const char* begin, const char* end) {
    const auto bytes = static_cast<std::size_t>(end - begin);
    if (bytes == 0) {
      data_.reset();
      capacity_ = 0;
    } else if (bytes > capacity_) {
      replace(allocate(rounded(bytes)), begin, bytes);
    } else if (Memory smaller = capacity_ > 4 * bytes + 256 ? try_allocate(rounded(bytes)) : nullptr) {
      replace(std::move(smaller), begin, bytes);
    } else if (begin != data_.get()) {
      std::memmove(data_.get(), begin, bytes);
    }
    size_ = bytes;
  }
  // Room for `bytes` more behind what is kept; added() then makes them part of it.
  char* reserve(std::size_t bytes) {
    if (capacity_ - size_ < bytes) {
      const std::size_t capacity = 2 * (size_ + bytes);
      Memory larger = allocate(capacity);
      std::memcpy(larger.get(), data_.get(), size_);
      data_ = std::move(larger);
      capacity_ = capacity;
    }
    return data_.get() + size_;
  }
  void added(std::size_t bytes) noexcept { size_ += bytes; }

 private:
  struct Free {
    void operator()(char* p) const noexcept { std::free(p); }
  };
  using Memory = std::unique_ptr<char[], Free>;
  // Not operator new, which would use the memory reserve for what can be refused.
  // The lane reads behind it.
  static Memory try_allocate(std::size_t bytes) noexcept {
    return Memory(static_cast<char*>(std::malloc(bytes + lane_padding_bytes)));
  }
  static Memory allocate(std::size_t bytes) {
    Memory memory = try_allocate(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  static std::size_t rounded(std::size_t bytes) noexcept { return (bytes + 63) & ~std::size_t{63}; }
  void replace(Memory other, const char* begin, std::size_t bytes) noexcept {
    std::memcpy(other.get(), begin, bytes);
    data_ = std::move(other);
    capacity_ = rounded(bytes);
  }

  Memory data_;
  std::size_t size_ = 0, capacity_ = 0;
};

// Output that a client's socket did not take, in order.
class Unsent {
 public:
  // A stretch of the buffer (external == nullptr: bytes [offset, ...)) or of a value pinned in the heap.
  struct Piece {
    const char* external;
    std::size_t offset, bytes;
    Location pin;
  };

  bool empty() const noexcept { return first_ == pieces_.size(); }
  std::size_t copied_bytes() const noexcept { return buffer_.size(); }
  std::uint64_t pinned_bytes() const noexcept { return pinned_bytes_; }

  // Room for so much more. Throws std::bad_alloc, then nothing has changed.
  void reserve(std::size_t bytes, std::size_t pieces) {
    const auto make_room = [](auto& v, std::size_t more) {
      if (v.capacity() - v.size() < more) v.reserve(std::max(v.size() + more, 2 * v.capacity()));
    };
    make_room(buffer_, bytes);
    make_room(pieces_, pieces);
  }
  // REQUIRES, as append_pinned(): reserve() has made room.
  void append(const char* p, std::size_t bytes) {
    if (bytes == 0) return;
    if (!empty() && pieces_.back().external == nullptr) {
      pieces_.back().bytes += bytes;
    } else {
      pieces_.push_back({nullptr, buffer_.size(), bytes, no_location});
    }
    buffer_.insert(buffer_.end(), p, p + bytes);
  }
  // The item at `pin` is pinned already and stays so until it is sent or dropped.
  void append_pinned(const char* p, std::size_t bytes, Location pin) {
    pieces_.push_back({p, 0, bytes, pin});
    pinned_bytes_ += bytes;
  }
  // Fills `out` with what is to be sent next; returns how many.
  std::size_t next(iovec* out, std::size_t count_max) const noexcept;
  // Forgets `bytes` that were sent; unpins what has gone.
  void sent(std::size_t bytes, Heap& heap) noexcept;
  // Unpins everything.
  void drop(Heap& heap) noexcept;

 private:
  std::vector<char, RefusableAllocator<char>> buffer_;
  std::vector<Piece, RefusableAllocator<Piece>> pieces_;
  std::size_t first_ = 0;
  std::uint64_t pinned_bytes_ = 0;
};

// A large value on its way into the heap.
struct Fill {
  Location location;
  char* value;
  std::uint64_t value_bytes, received_bytes;
  std::size_t line_end_bytes;

  // Value and line end are there when `behind` bytes stand behind the value.
  bool is_whole(std::size_t behind) const noexcept { return received_bytes == value_bytes && behind >= line_end_bytes; }
};

// reading: waits for a command. keeping: for the rest of a small value. filling: of a large one. dropping: of a refused
// one. executing: asks the server something, `stats conns` for one.
enum class ConnectionState : std::uint8_t {
  reading,
  executing,
  keeping,
  filling,
  dropping,
  blocked,
  streaming,
  closed
};

struct Connection {
  Connection(int socket, const PeerAddress& from, const ProtocolOptions& options, const Clock& clock) noexcept
      : fd(socket), peer(from), last_active_s(clock.now_s()), parser(options, clock) {}

  const int fd;
  const PeerAddress peer;
  std::atomic<ConnectionState> state{ConnectionState::reading};
  bool readable = false;     // the socket may hold more than was received
  bool ended = false;        // the client has closed its side, or the socket has failed: receive until that shows
  bool waiting = false;      // in the list of connections that are served again without an event
  bool resumes = false;      // kept input holds more than an incomplete request: parse it before receiving
  bool after_large = false;  // its last request was a value received into its slot
  bool is_control = false;   // came by the control socket
  bool in_flight = false;    // a batch with queries of it is with a device
  bool closes = false;       // close when the unsent output is sent
  std::atomic<std::uint64_t> pass{0};  // the last pass that served it; 0: it has not sent anything yet
  std::uint64_t waits_since = 0;       // resumes: when (in ticks) its input was received; 0: not known
  std::atomic<std::uint32_t> last_active_s;
  CloseReason close_reason = CloseReason::normal;  // of a connection that `closes`, or is closed
  std::uint32_t stream_index = 0;                  // place in the list of streams
  std::uint32_t blocked_index = 0;                 // place in the list of blocked connections
  Parser parser;
  KeptInput kept;
  std::size_t kept_counted = 0;  // bytes of its buffer that the worker and State::kept count
  std::unique_ptr<Unsent> unsent;
  std::unique_ptr<Fill> fill;
  std::unique_ptr<TlsSession> tls;  // nullptr: a plain connection
  std::unique_ptr<Stream> stream;   // the answer that is being sent
  Connection* previous = nullptr;   // in the list of connections
  Connection* next = nullptr;

  bool is_blocked() const noexcept { return unsent != nullptr; }
  bool is_closed() const noexcept { return state.load(std::memory_order_relaxed) == ConnectionState::closed; }
};

}  // namespace tandem::net
