#include "placement/prove_kernels.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "index/cuckoo/table_kernels.hpp"
#include "placement/mirrored/image_kernels.hpp"

namespace tandem {

void prove_kernels(Device& device) {
  const DeviceArray<Bucket> buckets(device, 2);
  const DeviceArray<std::uint32_t> winners(device, 2 * bucket_cells);
  const PinnedArray<Fingerprint> f(device, 1);
  const PinnedArray<Location> location(device, 1), nowhere(device, 1);
  const PinnedArray<std::uint8_t> done(device, 1);
  const PinnedArray<CellChange> changes(device, 2);
  const PinnedArray<std::uint8_t> changed(device, 2);
  const PinnedArray<DirtyCell> cells(device, 1);
  const DeviceArray<Granule> granules(device, 2);
  const DeviceArray<std::uint32_t> marks(device, 1);
  const PinnedArray<Granule> item(device, 1);
  const PinnedArray<Granule> image(device, 2);
  const PinnedArray<Location> item_at(device, 1);
  const DeviceImages images{granules.at(), marks.at(), 2, 1};
  const std::unique_ptr<Stream> stream = device.make_stream();
  const DeviceIndex index{buckets.at(), {.mask = 1}};
  f[0] = {1, 0};
  location[0] = nowhere[0] = 1;
  done[0] = 0;
  changes[0] = {f[0], 0, 2};
  changes[1] = {f[0], 2, 0};
  changed[0] = changed[1] = 0;
  cells[0] = {0, 0};
  item[0] = {{static_cast<std::uint64_t>(ItemState::live), 0, 0, 0}};
  item_at[0] = 1;
  image[1] = {};
  DeviceStatus status = stream->zero(buckets.bytes_at(), buckets.bytes());
  const auto then = [&status](DeviceStatus next) {
    if (status == DeviceStatus::ok) status = next;
  };
  then(stream->zero(winners.bytes_at(), winners.bytes()));
  then(stream->zero(marks.bytes_at(), marks.bytes()));
  then(stream->launch(insert_into_table, {index, f.at(), location.at(), done.at(), 1}));
  then(stream->launch(store_images, {images, item_at.at(), item.at(), 1}));
  then(stream->launch(search_table, SearchArguments::of(index, f.at(), location.at(), 1)));
  then(stream->copy_to_host(image.data(), granules.bytes_at(), image.bytes()));
  then(stream->launch(erase_from_table, {index, f.at(), location.at(), done.at(), 1}));
  then(stream->launch(change_table, {index, changes.at(), changed.at(), 1}));
  then(stream->launch(change_table, {index, changes.at(1), changed.at(1), 1}));
  then(stream->launch(search_table, SearchArguments::of(index, f.at(), nowhere.at(), 1)));
  then(stream->launch(store_cells, {index, winners.at(), cells.at(), 1}));
  if (status == DeviceStatus::ok) status = stream->wait(stream->mark(), std::chrono::seconds(30));
  const bool changed_both = changed[0] == 1 && changed[1] == 1 && nowhere[0] == no_location;
  const bool has_image = std::ranges::equal(image[1].word, item[0].word);
  if (status == DeviceStatus::ok && location[0] == 1 && has_image && done[0] == 1 && changed_both) return;
  const std::string said = device.last_error();
  device.abandon();
  const char* const why = status == DeviceStatus::pending ? "no answer in 30 s" : "a wrong answer";
  const DeviceInfo& info = device.info();
  throw DeviceError(DeviceStatus::failed, (info.backend == "cuda" ? "GPU " : info.backend + " ") +
                                              std::to_string(info.number) +
                                              " does not run the kernels: " + (said.empty() ? why : said));
}

}  // namespace tandem
