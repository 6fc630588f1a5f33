#include "horo/flight_recorder/open_table.h"

#include <bit>
#include <cstring>
#include <functional>

#include "horo/flight_recorder/flight_recorder.h"

namespace horo::observe {

std::string_view NameTable::text_of(NameId id) const {
  const FlightName& name = layout_.names[id];
  return {layout_.texts.data() + name.offset, name.length};
}

// Uses open addressing. Sets `slot` to the slot of the name, or to the free slot in which the name
// belongs. The search ends, because there are twice as many slots as names.
NameId NameTable::find(std::string_view name, std::size_t& slot) const {
  slot = std::hash<std::string_view>()(name) % slots_.size();
  for (;; slot = (slot + 1) % slots_.size()) {
    const NameId id = slots_[slot].load(std::memory_order_acquire);
    if (id == 0 || text_of(id) == name) return id;
  }
}

// Requires mutex_. Stores names_used after the text and its position, so that a reader sees only
// complete names.
NameId NameTable::append(std::string_view name) {
  FlightStatus& status = layout_.header->status;
  const NameId id = status.names_used + 1;  // 0 means no name
  if (id >= layout_.names.size() || name.size() > layout_.texts.size() - status.texts_used) {
    store_relaxed(status.names_lost, status.names_lost + 1);
    return 0;
  }
  std::memcpy(layout_.texts.data() + status.texts_used, name.data(), name.size());
  layout_.names[id] = {status.texts_used, static_cast<std::uint32_t>(name.size())};
  store_relaxed(status.texts_used, status.texts_used + static_cast<std::uint32_t>(name.size()));
  store_release(status.names_used, id);
  return id;
}

// The lookup without the lock may miss a name that another thread is appending, so the lookup is
// repeated with the lock. A slot is stored with release order after the name's text is complete.
NameId NameTable::id_of(std::string_view name) {
  if (name.empty()) return 0;
  name = name.substr(0, kMaxNameBytes);
  std::size_t slot = 0;
  if (const NameId id = find(name, slot)) return id;
  const std::scoped_lock lock(mutex_);
  if (const NameId id = find(name, slot)) return id;
  const NameId id = append(name);
  if (id != 0) slots_[slot].store(id, std::memory_order_release);
  return id;
}

namespace {

void count_unlisted(const FlightLayout& layout, std::int32_t change) {
  std::atomic_ref(layout.header->status.unlisted)
      .fetch_add(static_cast<std::uint32_t>(change), std::memory_order_relaxed);
}

}  // namespace

// Returns kNoRow if all rows are used. The acquire order pairs with the release order in free(), so
// the previous owner's last store to the row precedes all stores of the new owner.
std::uint32_t OpenTable::allocate_row() {
  for (std::size_t word = 0; word < used_.size(); ++word) {
    std::uint64_t used = used_[word].load(std::memory_order_relaxed);
    while (used != ~std::uint64_t{0}) {
      const std::uint64_t bit = ~used & (used + 1);  // the lowest free bit
      if (used_[word].compare_exchange_weak(used, used | bit, std::memory_order_acquire,
                                            std::memory_order_relaxed))
        return static_cast<std::uint32_t>(word * 64 + std::countr_zero(bit));
    }
  }
  return kNoRow;
}

OpenFlight OpenTable::add(const FlightRecord& record, FlightRecorder& recorder) {
  OpenFlight open;
  open.recorder_ = &recorder;
  // Readers compare the names of operations of different ranks, so an operation without a name has
  // no row.
  open.row_ = record.name == 0 ? kNoRow : allocate_row();
  open.record_ = record;
  open.record_.sequence = opened_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (open.row_ != kNoRow)
    write(open.row_, open.record_);
  else
    count_unlisted(layout_, 1);
  return open;
}

void OpenTable::write(std::uint32_t row, const FlightRecord& record) {
  write_record(layout_.open[row], record, record.sequence);
}

// Invalidates the row before it releases the bit, so a new owner never finds a valid sequence.
void OpenTable::free(std::uint32_t row) {
  if (row == kNoRow) return count_unlisted(layout_, -1);
  store_relaxed(layout_.open[row].sequence, std::uint64_t{0});
  used_[row / 64].fetch_and(~(std::uint64_t{1} << row % 64), std::memory_order_release);
}

// The row stays valid during the two stores, so a reader may see only one of them.
void OpenFlight::start(std::int64_t agreed, std::int64_t started) {
  if (recorder_ == nullptr) return;
  record_.agreed = agreed;
  record_.started = started;
  if (row_ != OpenTable::kNoRow) {
    store_relaxed(recorder_->layout().open[row_].agreed, agreed);
    store_relaxed(recorder_->layout().open[row_].started, started);
  }
}

void OpenFlight::finish(std::int64_t ended) {
  if (recorder_ == nullptr) return;
  record_.ended = ended;
  recorder_->add(record_);
  recorder_->count_finished(1);
  recorder_->close(row_);
  recorder_ = nullptr;
}

OpenFlight::~OpenFlight() {
  if (recorder_ == nullptr) return;
  if (recorder_->is_running())
    recorder_->close(row_);
  else if (row_ != OpenTable::kNoRow)
    store_relaxed(recorder_->layout().open[row_].ended, flight_clock());
}

}  // namespace horo::observe
