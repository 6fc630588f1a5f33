#pragma once

// Declares the names of a training program for the C++ fragments in the documentation. Nothing is
// defined, since the fragments are only compiled.
#include <horo/dlpack.h>
#include <horo/horo.h>
#include <horo/mpi.h>
#include <horo/testing.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/backend/device/device_backend.h"
#include "ops/checkpoint/checkpoints.h"
#include "ops/nn/layer.h"
#include "ops/nn/layers/gelu.h"
#include "ops/nn/models/resnet.h"
#include "ops/parallel/parallel_linear.h"
#include "ops/parallel/parameter_server.h"
#include "ops/train/callbacks/stop_on_signal.h"
#include "ops/train/trainer.h"

namespace program {

extern horo::Context ctx;
extern int seed, steps;
extern std::uint64_t step_number;

extern std::vector<float> weights, momentum, gradient, x, activations, inputs;
extern float loss;
extern double loss_sum, sample_count;
extern bool signal_was_received;
extern std::size_t i;

extern std::shared_ptr<horo::device::Device> gpu;
extern void* stream;
extern horo::TensorView w;
extern DLManagedTensor* given;
extern float* w_address;
extern horo::ops::Tensor images, logits_gradient;
void mark_ready(const horo::ops::Parameter&);
extern horo::ops::Sequential model;
void forward_backward();
void gather_over_own_network(std::span<const std::byte> own, std::span<std::byte> all);

std::vector<std::byte> read_file(const std::string& path);
extern std::vector<horo::NamedTensor> gradients, parameters, state;
extern std::vector<std::byte> file_bytes;

struct Batch {
  std::size_t size() const;
};
struct Loader {
  bool next(Batch&);
};
struct Optimizer {
  void step();
};
extern Loader loader;
extern Batch batch, a, b, c;
extern std::vector<Batch> batches;
extern Optimizer optimizer;

extern horo::GradientSync sync;

float* new_array(std::size_t count);
void compute_gradients(const std::vector<float>& weights, std::vector<float>& gradient,
                       float* bias_gradient, float& loss);
void forward(void* stream);
template <typename... Arguments>
void backward(Arguments&&...) {}
void update(void* stream);
template <typename... Arguments>
void train(Arguments&&...) {}
void copy_to_device(const Batch&, void* stream);
void log(const std::string& text);
std::vector<std::byte> save(const Optimizer&);
void write_checkpoint();

}  // namespace program
