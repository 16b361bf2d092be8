#include "device/cuda/cuda_stream.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

namespace tandem::cuda {
namespace {

using namespace std::chrono_literals;

// A wait polls continuously for the duration of a small batch, and then at intervals that add about an eighth to it.
constexpr std::chrono::nanoseconds spin = 200us;
constexpr std::chrono::nanoseconds pause_most = 1ms;

template <class T>
T* pointer(DevicePtr<T> at) noexcept {
  return reinterpret_cast<T*>(at.address());
}

}  // namespace

CudaStream::CudaStream(std::shared_ptr<Core> core, StreamPriority priority)
    : core_(std::move(core)), events_(events_first) {
  core_->require_bound();
  int least = 0, greatest = 0;  // the greatest priority is the lowest number
  core_->require(cudaDeviceGetStreamPriorityRange(&least, &greatest), "no range of priorities");
  core_->require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                              priority == StreamPriority::greatest ? greatest : least),
                 "no stream");
  for (cudaEvent_t& event : events_) {
    const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDefault);
    if (error == cudaSuccess) continue;
    destroy();
    core_->require(error, "no event");
  }
}

CudaStream::~CudaStream() {
  const DeviceMark all = CudaStream::mark();
  while (CudaStream::wait(all, 1s) == DeviceStatus::pending) {  // until done or abandoned
  }
  destroy();
}

void CudaStream::destroy() noexcept {
  // On a lost device they are leaked: a call that names hung work might hang, too.
  if (core_->bind() != DeviceStatus::ok) return;
  for (cudaEvent_t event : events_) {
    if (event != nullptr) (void)core_->check(cudaEventDestroy(event));
  }
  (void)core_->check(cudaStreamDestroy(stream_));
}

// --- work. A launch into a full queue (about a thousand) blocks in the driver until there is room.

DeviceStatus CudaStream::copy_to_device(DevicePtr<std::byte> to, const void* from, std::uint64_t bytes) noexcept {
  const DeviceStatus bound = core_->bind();
  if (bound != DeviceStatus::ok || bytes == 0) return bound;
  return core_->check(cudaMemcpyAsync(pointer(to), from, bytes, cudaMemcpyDefault, stream_));
}

DeviceStatus CudaStream::copy_to_host(void* to, DevicePtr<const std::byte> from, std::uint64_t bytes) noexcept {
  const DeviceStatus bound = core_->bind();
  if (bound != DeviceStatus::ok || bytes == 0) return bound;
  return core_->check(cudaMemcpyAsync(to, pointer(from), bytes, cudaMemcpyDefault, stream_));
}

DeviceStatus CudaStream::zero(DevicePtr<std::byte> at, std::uint64_t bytes) noexcept {
  const DeviceStatus bound = core_->bind();
  if (bound != DeviceStatus::ok || bytes == 0) return bound;
  return core_->check(cudaMemsetAsync(pointer(at), 0, bytes, stream_));
}

DeviceStatus CudaStream::launch(const KernelLaunch& launch) noexcept {
  const DeviceStatus bound = core_->bind();
  if (bound != DeviceStatus::ok || launch.queries() == 0) return bound;
  return core_->check(static_cast<cudaError_t>(launch.cuda(stream_)));
}

// --- marks

DeviceMark CudaStream::mark() noexcept {
  const std::lock_guard lock(mutex_);
  const DeviceMark mark = last_ + 1;
  // Without its event the mark's completion could never be known.
  if (record(mark) != DeviceStatus::ok) core_->abandon();
  last_ = mark;
  return mark;
}

DeviceStatus CudaStream::record(DeviceMark mark) noexcept {
  DeviceStatus status = core_->bind();
  if (status != DeviceStatus::ok) return status;
  if (mark > events_.size() && mark - events_.size() > done_) {
    status = poll_locked(mark - events_.size());  // its event is about to be reused
    if (status == DeviceStatus::pending) status = grow();
    if (status != DeviceStatus::ok) return status;
  }
  return core_->check(cudaEventRecord(event_of(mark), stream_));
}

DeviceStatus CudaStream::grow() noexcept {
  const std::size_t before = events_.size();
  try {
    std::vector<cudaEvent_t> events(2 * before);
    for (DeviceMark m = last_ + 1 - before; m <= last_; ++m) events[m & (2 * before - 1)] = event_of(m);
    events_.swap(events);
  } catch (const std::bad_alloc&) {
    return DeviceStatus::out_of_memory;
  }
  for (cudaEvent_t& event : events_) {
    if (event != nullptr) continue;
    const DeviceStatus status = core_->check(cudaEventCreateWithFlags(&event, cudaEventDefault));
    if (status != DeviceStatus::ok) return status;
  }
  return DeviceStatus::ok;
}

DeviceStatus CudaStream::poll_locked(DeviceMark mark) noexcept {
  if (core_->lost()) return DeviceStatus::lost;
  if (mark <= done_) return DeviceStatus::ok;
  if (mark > last_) return DeviceStatus::failed;  // not issued yet
  const DeviceStatus status = core_->check(cudaEventQuery(event_of(mark)));
  if (status == DeviceStatus::ok) done_ = mark;
  return status;
}

DeviceStatus CudaStream::poll(DeviceMark mark) noexcept {
  const std::lock_guard lock(mutex_);
  return poll_locked(mark);
}

DeviceStatus CudaStream::wait(DeviceMark mark, std::chrono::nanoseconds limit) noexcept {
  const auto began = std::chrono::steady_clock::now();
  for (;;) {
    const DeviceStatus status = poll(mark);
    if (status != DeviceStatus::pending) return status;
    const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - began;
    if (waited >= limit) return status;
    if (waited < spin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min({waited / 8, pause_most, limit - waited}));
    }
  }
}

DeviceStatus CudaStream::after(Stream& other, DeviceMark mark) noexcept {
  const DeviceStatus bound = core_->bind();
  if (bound != DeviceStatus::ok) return bound;
  auto* const stream = dynamic_cast<CudaStream*>(&other);
  if (stream == nullptr || stream->core_ != core_) return DeviceStatus::failed;
  if (stream == this) return DeviceStatus::ok;
  const std::lock_guard lock(stream->mutex_);
  if (mark <= stream->done_) return DeviceStatus::ok;
  if (mark > stream->last_) return DeviceStatus::failed;
  return core_->check(cudaStreamWaitEvent(stream_, stream->event_of(mark), 0));
}

std::uint64_t CudaStream::elapsed_ns(DeviceMark from, DeviceMark to) noexcept {
  const std::lock_guard lock(mutex_);
  if (from == 0 || to <= from || poll_locked(to) != DeviceStatus::ok) return 0;
  if (last_ - from >= events_.size()) return 0;  // its event has been reused by a later mark
  float ms = 0;
  if (core_->check(cudaEventElapsedTime(&ms, event_of(from), event_of(to))) != DeviceStatus::ok) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(ms) * 1e6);
}

}  // namespace tandem::cuda
