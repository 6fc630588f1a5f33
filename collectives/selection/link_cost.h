#pragma once

namespace horo::collectives {

/// What messages between nodes cost, in the model of Hockney, "The communication challenge for
/// MPP", 1994: a message of N bytes takes alpha + N * beta seconds.
struct LinkCost {
  double alpha = 0;  ///< seconds per message
  double beta = 0;   ///< seconds per byte sent
  double gamma = 0;  ///< seconds per byte that is combined with another

  bool operator==(const LinkCost&) const = default;
};

/// TCP over 10 Gbit/s Ethernet, and memory of 10 GB/s: what is assumed where nothing may depend on
/// a measurement.
inline constexpr LinkCost kNominalLink{20e-6, 0.8e-9, 0.1e-9};

}  // namespace horo::collectives
