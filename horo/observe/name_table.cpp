#include "horo/observe/name_table.h"

#include <cstring>
#include <functional>

namespace horo::observe {

std::string_view NameTable::text_of(NameId id) const {
  const FlightName& name = layout_.names[id];
  return {layout_.texts.data() + name.offset, name.length};
}

// Open addressing: `place` is where the name is, or belongs.
NameId NameTable::find(std::string_view name, std::size_t& place) const {
  place = std::hash<std::string_view>()(name) % places_.size();
  for (;; place = (place + 1) % places_.size()) {
    const NameId id = places_[place].load(std::memory_order_acquire);
    if (id == 0 || text_of(id) == name) return id;
  }
}

NameId NameTable::append(std::string_view name) {
  FlightStatus& status = layout_.header->status;
  const NameId id = status.names_used + 1;  // 0 is no name
  if (id >= layout_.names.size() || name.size() > layout_.texts.size() - status.texts_used) {
    publish(status.names_lost, status.names_lost + 1);
    return 0;
  }
  std::memcpy(layout_.texts.data() + status.texts_used, name.data(), name.size());
  layout_.names[id] = {status.texts_used, static_cast<std::uint32_t>(name.size())};
  publish(status.texts_used, status.texts_used + static_cast<std::uint32_t>(name.size()));
  publish_last(status.names_used, id);
  return id;
}

NameId NameTable::id_of(std::string_view name) {
  if (name.empty()) return 0;
  name = name.substr(0, kLongest);
  std::size_t place = 0;
  if (const NameId id = find(name, place)) return id;
  const std::scoped_lock lock(mutex_);
  if (const NameId id = find(name, place)) return id;
  const NameId id = append(name);
  if (id != 0) places_[place].store(id, std::memory_order_release);
  return id;
}

}  // namespace horo::observe
