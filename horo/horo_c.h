#ifndef HORO_HORO_C_H
#define HORO_HORO_C_H

/** @file
 * The C interface of horo, for C99 and later and for every standard of C++. Link libhoro_c.
 *
 * The functions are those of the C++ interface, whose headers (horo/context.h,
 * horo/gradient_sync.h, ...) describe which calls are collective, how ranks match operations by
 * name, and which errors which rank gets. In short: every rank makes the same calls, an operation
 * without "_async" blocks, and operations in flight have different names.
 *
 * Every function that returns horo_status catches all exceptions. If the result is not HORO_OK,
 * horo_last_error() has the text. Outputs of a call that fails are unchanged. Pointers to objects
 * must not be null, unless stated otherwise; a null pointer is HORO_INVALID_ARGUMENT.
 *
 * Structures that may grow in later versions begin with their size. Initialise them with their
 * macro: horo_options options = HORO_OPTIONS; the other fields then have their defaults.
 *
 * Functions may be called from several threads, with the limits of the C++ class behind them. An
 * object must not be used while another thread destroys it.
 */

#include <stddef.h>
#include <stdint.h>

/** Marks what the library exports. */
#if defined(__GNUC__)
#define HORO_C_EXPORT __attribute__((visibility("default")))
#else
#define HORO_C_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

/** The result of a function, and the kind of its error. */
typedef enum horo_status {
  HORO_OK = 0, /**< no error */
  /** An error of none of the kinds below, such as too little host memory. */
  HORO_ERROR = 1,
  /** An argument or a setting is invalid. Nothing was submitted. The context remains usable. */
  HORO_INVALID_ARGUMENT = 2,
  /** Ranks disagree. Every rank that takes part gets this error. The context remains usable. */
  HORO_MISMATCH = 3,
  /** A rank was lost, a wait timed out, or the transport failed. The job cannot continue. */
  HORO_COMMUNICATION_ERROR = 4,
  /** A node has too little shared memory. Every rank gets this error. The context remains usable.
   */
  HORO_SHARED_MEMORY_ERROR = 5,
  /** A call of a device (GPU) failed. */
  HORO_DEVICE_ERROR = 6,
  /** This rank, or a rank that the operation needs, has shut down. */
  HORO_SHUT_DOWN = 7
} horo_status;

/** The text of the latest error of the calling thread, one line; "" if there was none. Valid until
 * the next call of this thread that fails. */
HORO_C_EXPORT const char* horo_last_error(void);
/** "invalid argument" for HORO_INVALID_ARGUMENT, and so on. */
HORO_C_EXPORT const char* horo_status_name(horo_status status);
/** The version of the library, such as "0.1.0". */
HORO_C_EXPORT const char* horo_version(void);

/* ---- Tensors and operations ---- */

/** The type of the elements of a tensor; see horo/base/data_type.h. */
typedef enum horo_data_type {
  HORO_FLOAT32 = 0,
  HORO_FLOAT64 = 1,
  HORO_FLOAT16 = 2,
  HORO_BFLOAT16 = 3,
  HORO_INT8 = 4,
  HORO_UINT8 = 5,
  HORO_INT16 = 6,
  HORO_UINT16 = 7,
  HORO_INT32 = 8,
  HORO_INT64 = 9,
  HORO_BOOL = 10
} horo_data_type;

/** How the values of the ranks are combined; see horo/base/reduce_op.h. */
typedef enum horo_reduce_op {
  HORO_AVERAGE = 0,
  HORO_SUM = 1,
  HORO_MIN = 2,
  HORO_MAX = 3,
  HORO_PRODUCT = 4,
  HORO_ADASUM = 5
} horo_reduce_op;

typedef struct horo_context horo_context; /**< a job or a process set, as seen by one rank */
typedef struct horo_handle horo_handle;   /**< an operation in flight */
typedef struct horo_gradient_sync
    horo_gradient_sync;                 /**< gradients that are exchanged in each step */
typedef struct horo_arena horo_arena;   /**< memory that the ranks of a node share */
typedef struct horo_scope horo_scope;   /**< a phase or a pause */
typedef struct horo_device horo_device; /**< a GPU */

/** A contiguous tensor that the caller owns. Fields that an initialiser leaves out are zero, so
 * {"fc1.weight", data, HORO_FLOAT32, count} is a vector in host memory. */
typedef struct horo_tensor {
  const char* name;          /**< null: nameless */
  void* data;                /**< not changed if the tensor is an input */
  horo_data_type type;       /**< of the elements */
  size_t count;              /**< elements */
  const size_t* dimensions;  /**< outermost first; their product is `count`. null: [count] */
  size_t dimension_count;    /**< 0 if `dimensions` is null */
  const horo_device* device; /**< null: host memory */
} horo_tensor;

/** Options of operations. Each operation uses those that its C++ options have. */
typedef struct horo_options {
  size_t size;       /**< sizeof(horo_options) */
  const char* name;  /**< of a group; other operations have the name of their tensor */
  horo_reduce_op op; /**< how the values of the ranks are combined */
  int root;          /**< of a broadcast */
  double prescale;   /**< multiplies the values of this rank before a reduction */
  double postscale;  /**< multiplies the result of a reduction */
  void* stream;      /**< of tensors in device memory, a cudaStream_t */
} horo_options;
/** The defaults of horo_options. */
#define HORO_OPTIONS \
  { sizeof(horo_options), NULL, HORO_AVERAGE, 0, 1.0, 1.0, NULL }

/* ---- Jobs ---- */

/** Joins the job that mpirun or hororun started; alone, a job of one rank. Collective. */
HORO_C_EXPORT horo_status horo_init(horo_context** context);
/** Makes a job of the ranks of a communicator. `communicator` is the address of an MPI_Comm. The
 * program must have initialised MPI; horo/mpi.h states what each thread level means. Collective
 * over the communicator. */
HORO_C_EXPORT horo_status horo_init_communicator(const void* communicator, horo_context** context);

/** How the ranks of a job find each other without MPI, or with an MPI that horo was not built for.
 * See horo/bootstrap.h. */
typedef struct horo_bootstrap {
  size_t size;    /**< sizeof(horo_bootstrap) */
  int rank;       /**< of this process, 0 ... rank_count - 1 */
  int rank_count; /**< of the job */
  /** Copies the `bytes` bytes at `own` of every rank to `all`, in rank order. Collective. Returns
   * 0, or another value for a failure, which ends horo_init_bootstrap(). */
  int (*allgather)(const void* own, size_t bytes, void* all, void* data);
  void* data; /**< passed to allgather */
} horo_bootstrap;
/** Makes a job of `rank_count` ranks. Calls `allgather` only before it returns, on this thread.
 * Collective. */
HORO_C_EXPORT horo_status horo_init_bootstrap(const horo_bootstrap* bootstrap,
                                              horo_context** context);
/** Leaves the job or closes the process set, and frees `context`, also if it fails. Collective:
 * blocks until every rank has called it. Objects made from the context must be destroyed first.
 * Null: no effect. */
HORO_C_EXPORT horo_status horo_shutdown(horo_context* context);

/** The number of this rank, 0 ... horo_size() - 1. As the functions below, -1 if `context` is null,
 * or if it is a process set without this rank. */
HORO_C_EXPORT int horo_rank(const horo_context* context);
/** The number of ranks; of a set, the number of its members, also on other ranks. */
HORO_C_EXPORT int horo_size(const horo_context* context);
/** The number of this rank on its node, 0 ... horo_local_size() - 1. */
HORO_C_EXPORT int horo_local_rank(const horo_context* context);
/** The number of ranks on this node. */
HORO_C_EXPORT int horo_local_size(const horo_context* context);
/** The number of this node, 0 ... horo_node_count() - 1. */
HORO_C_EXPORT int horo_node(const horo_context* context);
/** The number of nodes. */
HORO_C_EXPORT int horo_node_count(const horo_context* context);

/** Makes a group of ranks, ascending, with operations of its own. Collective over `context`:
 * members and others. horo_shutdown() closes it. Use a set of which this rank is no member only for
 * horo_size(), horo_process_set_includes_me() and horo_shutdown(). */
HORO_C_EXPORT horo_status horo_process_set_create(horo_context* context, const int* ranks,
                                                  size_t count, horo_context** set);
/** 1 if this rank is a member of the set, else 0; 1 for a context that is no set. */
HORO_C_EXPORT int horo_process_set_includes_me(const horo_context* set);

/* ---- Blocking operations on vectors in host memory ---- */

/** Reduces `data` over all ranks, in place. `name` may be null in all operations. */
HORO_C_EXPORT horo_status horo_allreduce(horo_context* context, void* data, size_t count,
                                         horo_data_type type, horo_reduce_op op, const char* name);
/** Copies `data` of rank `root` to `data` of every other rank. */
HORO_C_EXPORT horo_status horo_broadcast(horo_context* context, void* data, size_t count,
                                         horo_data_type type, int root, const char* name);
/** Concatenates the inputs of all ranks, which may have different counts. `output_count` is their
 * sum. */
HORO_C_EXPORT horo_status horo_allgather(horo_context* context, const void* input,
                                         size_t input_count, void* output, size_t output_count,
                                         horo_data_type type, const char* name);
/** Gives each rank its share of the reduced input: horo_shard_rows(context, count) elements. */
HORO_C_EXPORT horo_status horo_reduce_scatter(horo_context* context, const void* input,
                                              size_t count, void* output, horo_data_type type,
                                              horo_reduce_op op, const char* name);
/** The rows of this rank's share of `rows`; 0 if `context` is null. */
HORO_C_EXPORT size_t horo_shard_rows(const horo_context* context, size_t rows);
/** Blocks until every rank has called it with the same name. */
HORO_C_EXPORT horo_status horo_barrier(horo_context* context, const char* name);
/** For ranks with different numbers of steps; see Context::join(). `last_rank` may be null. */
HORO_C_EXPORT horo_status horo_join(horo_context* context, int* last_rank);
/** Fails with HORO_MISMATCH on every rank if a tensor differs between ranks, and names it. Compares
 * in every `every`-th call with this name, at least 1. */
HORO_C_EXPORT horo_status horo_check_equal(horo_context* context, const horo_tensor* tensors,
                                           size_t count, const char* name, uint64_t every);

/** Copies `bytes` bytes of the root to every rank, where `*result` gets a copy that horo_free()
 * frees. On other ranks than the root, `object` is not read. */
HORO_C_EXPORT horo_status horo_broadcast_object(horo_context* context, const void* object,
                                                size_t bytes, int root, const char* name,
                                                void** result, size_t* result_bytes);
/** Concatenates the objects of all ranks. `sizes` gets the bytes of each rank, horo_size() values
 * of the caller. horo_free() frees `*result`. */
HORO_C_EXPORT horo_status horo_allgather_object(horo_context* context, const void* object,
                                                size_t bytes, const char* name, void** result,
                                                size_t* sizes);
/** Frees a result of this library. Null: no effect. */
HORO_C_EXPORT void horo_free(void* memory);

/* ---- Operations on any tensor, in flight until horo_wait() ---- */

/** Reduces `tensor` over all ranks, in place. `options` may be null in all operations: the
 * defaults. The tensors' memory must stay valid until the operation has completed; the structures
 * may be freed at once. */
HORO_C_EXPORT horo_status horo_allreduce_async(horo_context* context, const horo_tensor* tensor,
                                               const horo_options* options, horo_handle** handle);
/** The result goes to `output`, which has the type and shape of `input`. */
HORO_C_EXPORT horo_status horo_allreduce_into_async(horo_context* context, const horo_tensor* input,
                                                    const horo_tensor* output,
                                                    const horo_options* options,
                                                    horo_handle** handle);
/** Reduces several tensors, in place, as one operation. */
HORO_C_EXPORT horo_status horo_allreduce_group_async(horo_context* context,
                                                     const horo_tensor* tensors, size_t count,
                                                     const horo_options* options,
                                                     horo_handle** handle);
/** Copies `tensor` of rank options->root to every other rank. */
HORO_C_EXPORT horo_status horo_broadcast_async(horo_context* context, const horo_tensor* tensor,
                                               const horo_options* options, horo_handle** handle);
/** Broadcasts several tensors as one operation. */
HORO_C_EXPORT horo_status horo_broadcast_group_async(horo_context* context,
                                                     const horo_tensor* tensors, size_t count,
                                                     const horo_options* options,
                                                     horo_handle** handle);
/** Concatenates the inputs of all ranks along the first dimension. The operation has the name of
 * `input`. */
HORO_C_EXPORT horo_status horo_allgather_async(horo_context* context, const horo_tensor* input,
                                               const horo_tensor* output,
                                               const horo_options* options, horo_handle** handle);
/** Gives each rank its share of the reduced input: horo_shard_rows() rows (first dimension). */
HORO_C_EXPORT horo_status horo_reduce_scatter_async(horo_context* context, const horo_tensor* input,
                                                    const horo_tensor* output,
                                                    const horo_options* options,
                                                    horo_handle** handle);
/** Sends rows of `input` to every rank. `splits`: the rows of `input` for each rank, horo_size()
 * values; null: equal shares. */
HORO_C_EXPORT horo_status horo_alltoall_async(horo_context* context, const horo_tensor* input,
                                              const size_t* splits, const horo_tensor* output,
                                              const horo_options* options, horo_handle** handle);

/** Sends the tensor to rank `to`, which calls horo_recv_async() with the same name, type and shape.
 * Messages of a name arrive in order. A tensor in device memory is copied after the work of the
 * default stream; the stand-in for a GPU has none and fails with HORO_INVALID_ARGUMENT. */
HORO_C_EXPORT horo_status horo_send_async(horo_context* context, const horo_tensor* tensor, int to,
                                          horo_handle** handle);
/** Stores in `tensor` the values that rank `from` sends with horo_send_async(). */
HORO_C_EXPORT horo_status horo_recv_async(horo_context* context, const horo_tensor* tensor,
                                          int from, horo_handle** handle);

/** 1 if the operation has completed, with or without an error; 0 if not. */
HORO_C_EXPORT int horo_is_done(const horo_handle* handle);
/** Blocks until the operation has completed, returns its error, and frees `handle`. */
HORO_C_EXPORT horo_status horo_wait(horo_handle* handle);
/** The rows that an alltoall received from each rank, horo_size() values of the caller. Blocks
 * until they are known. `handle` stays valid. */
HORO_C_EXPORT horo_status horo_received_splits(horo_handle* handle, size_t* splits, size_t count);
/** Tensors in device memory: later work of `stream` starts after the operation. `handle` stays
 * valid. */
HORO_C_EXPORT horo_status horo_wait_on(horo_handle* handle, void* stream);
/** Calls `callback` once after the operation has completed, on a thread of horo, with its status
 * and the text of its error, or "". The text is valid during the call. `handle` stays valid. */
HORO_C_EXPORT horo_status horo_then(horo_handle* handle,
                                    void (*callback)(horo_status status, const char* error,
                                                     void* user),
                                    void* user);
/** Frees the handle without waiting. The operation continues. Null: no effect. */
HORO_C_EXPORT void horo_handle_destroy(horo_handle* handle);

/* ---- Gradients that are exchanged while backward runs ---- */

/** How float32 gradients are compressed; see horo/base/compression.h. */
typedef enum horo_compression {
  HORO_NO_COMPRESSION = 0,
  HORO_POWERSGD = 1,
  HORO_TOP_K = 2,
  HORO_INT8_BLOCKS = 3
} horo_compression;

/** Options of horo_gradient_sync_create(); see horo/base/gradient_sync_options.h. */
typedef struct horo_gradient_sync_options {
  size_t size;                  /**< sizeof(horo_gradient_sync_options) */
  const char* name;             /**< null: "gradients.0" and so on */
  horo_reduce_op op;            /**< how the gradients of the ranks are combined */
  size_t bucket_bytes;          /**< 0: HORO_BUCKET_BYTES */
  size_t first_bucket_bytes;    /**< 0: no separate limit */
  horo_data_type wire;          /**< between nodes: HORO_FLOAT16, HORO_BFLOAT16, or HORO_FLOAT32 */
  horo_compression compression; /**< approximate, with fewer bytes */
  size_t compression_rank;      /**< of HORO_POWERSGD */
  double compression_fraction;  /**< of HORO_TOP_K */
  size_t backward_passes_per_step; /**< at least 1; only the last one exchanges */
  int find_unused;                 /**< 1: a step may leave gradients unmarked */
  int weighted;                    /**< 1: horo_gradient_sync_set_weight() */
  double clip_norm;                /**< 0: none */
  int check_finite;                /**< 1: the report names non-finite values */
  int reorder;                     /**< 1: pack in the order of readiness */
} horo_gradient_sync_options;
/** The defaults of horo_gradient_sync_options. */
#define HORO_GRADIENT_SYNC_OPTIONS                                              \
  {                                                                             \
    sizeof(horo_gradient_sync_options), NULL, HORO_AVERAGE, 0, 0, HORO_FLOAT32, \
        HORO_NO_COMPRESSION, 4, 0.01, 1, 0, 0, 0.0, 0, 0                        \
  }

/** The result of a step, the same on all ranks. See horo/base/step_report.h. */
typedef struct horo_step_report {
  size_t size;         /**< sizeof(horo_step_report) */
  int was_exchanged;   /**< 0: the pass only accumulated; the rest has no meaning */
  double total_weight; /**< the number of ranks, or the sum of their weights */
  double norm;         /**< with clip_norm or check_finite, else NaN */
  int was_clipped;     /**< 1: the gradients were scaled to clip_norm */
  int is_finite;       /**< with clip_norm or check_finite: 1 if all reduced values are finite */
  int non_finite_rank; /**< -1: none, or the reduction made a finite value infinite */
  size_t non_finite_gradient; /**< index in the registered list */
  size_t non_finite_index;    /**< element of that gradient */
} horo_step_report;
/** The initial value of horo_step_report. */
#define HORO_STEP_REPORT \
  { sizeof(horo_step_report), 0, 0.0, 0.0, 0, 0, 0, 0, 0 }

/** Registers `count` gradients. Collective. The memory of the gradients must stay in place; the
 * structures may be freed at once. `options` may be null: the defaults. Destroy the object before
 * horo_shutdown() of its context. */
HORO_C_EXPORT horo_status horo_gradient_sync_create(horo_context* context,
                                                    const horo_tensor* gradients, size_t count,
                                                    const horo_gradient_sync_options* options,
                                                    horo_gradient_sync** sync);
/** Marks gradient `index` as final in this pass. Thread-safe. Does not wait for other ranks. */
HORO_C_EXPORT horo_status horo_gradient_sync_ready(horo_gradient_sync* sync, size_t index);
/** The same in device memory, after the work that is enqueued on `stream` now. */
HORO_C_EXPORT horo_status horo_gradient_sync_ready_on(horo_gradient_sync* sync, size_t index,
                                                      void* stream);
/** Ends a pass: blocks until every gradient is reduced. */
HORO_C_EXPORT horo_status horo_gradient_sync_wait(horo_gradient_sync* sync);
/** Ends a pass in device memory: later work of `stream` starts after every gradient is reduced. */
HORO_C_EXPORT horo_status horo_gradient_sync_wait_on(horo_gradient_sync* sync, void* stream);
/** Marks all gradients ready and ends the pass. */
HORO_C_EXPORT horo_status horo_gradient_sync_exchange(horo_gradient_sync* sync);
/** Fills in the report of the latest step. In device memory, blocks until the device has run it. */
HORO_C_EXPORT horo_status horo_gradient_sync_report(horo_gradient_sync* sync,
                                                    horo_step_report* report);
/** Passes between begin and end exchange nothing; the pass after the end ends the step. */
HORO_C_EXPORT horo_status horo_gradient_sync_begin_no_sync(horo_gradient_sync* sync);
/** Ends the scope that the latest horo_gradient_sync_begin_no_sync() began. */
HORO_C_EXPORT horo_status horo_gradient_sync_end_no_sync(horo_gradient_sync* sync);
/** The weight of this rank in this step and all later ones. */
HORO_C_EXPORT horo_status horo_gradient_sync_set_weight(horo_gradient_sync* sync, double weight);
/** Takes part in the steps of the other ranks with weight 0 until all ranks have called join().
 * Calls `after_step`, which may be null, after each of these steps. `last_rank` may be null. */
HORO_C_EXPORT horo_status horo_gradient_sync_join(horo_gradient_sync* sync,
                                                  void (*after_step)(void* user), void* user,
                                                  int* last_rank);
/** Registers other gradients in place of the registered ones. Collective, after the same step. */
HORO_C_EXPORT horo_status horo_gradient_sync_update(horo_gradient_sync* sync,
                                                    const horo_tensor* gradients, size_t count);
/** With find_unused: the gradients that this rank did not mark in its latest step, ascending.
 * `*indices` is valid until the next step. */
HORO_C_EXPORT horo_status horo_gradient_sync_unused(const horo_gradient_sync* sync,
                                                    const size_t** indices, size_t* count);
/** The number of buckets; 0 if `sync` is null. */
HORO_C_EXPORT size_t horo_gradient_sync_bucket_count(const horo_gradient_sync* sync);
/** 1 if the bucket is reduced in the arenas in which its gradients lie, else 0. */
HORO_C_EXPORT int horo_gradient_sync_is_in_place(const horo_gradient_sync* sync, size_t bucket);
/** Frees the object. Null: no effect. */
HORO_C_EXPORT void horo_gradient_sync_destroy(horo_gradient_sync* sync);

/* ---- Memory, phases, counters and GPUs ---- */

/** Memory that all ranks of a node have mapped, in which gradients are reduced in place.
 * Collective. */
HORO_C_EXPORT horo_status horo_arena_create(horo_context* context, size_t bytes,
                                            horo_arena** arena);
/** The memory: zeroed, aligned to 4 KiB, at least `bytes` long. Null if `arena` is null. */
HORO_C_EXPORT void* horo_arena_data(const horo_arena* arena);
/** The size of the memory; 0 if `arena` is null. */
HORO_C_EXPORT size_t horo_arena_bytes(const horo_arena* arena);
/** Frees the arena. All use of the memory must have ended. Null: no effect. */
HORO_C_EXPORT void horo_arena_destroy(horo_arena* arena);

/** Begins a phase of this rank, such as "forward", for reports and timelines; or a pause, during
 * which the other ranks wait without a timeout. The scope that began last must end first. */
HORO_C_EXPORT horo_status horo_phase_begin(horo_context* context, const char* name,
                                           horo_scope** scope);
/** Begins a pause; see horo_phase_begin(). */
HORO_C_EXPORT horo_status horo_pause_begin(horo_context* context, const char* name,
                                           horo_scope** scope);
/** Ends a phase or a pause and frees the scope. Null: no effect. */
HORO_C_EXPORT void horo_scope_end(horo_scope* scope);

/** What this rank has done. See horo/base/counters.h. */
typedef struct horo_counters {
  size_t size;                    /**< sizeof(horo_counters) */
  uint64_t control_messages_sent; /**< negotiation messages, inside and between nodes */
  uint64_t control_bytes_sent;    /**< bytes of those messages */
  uint64_t node_messages_sent;    /**< those inside the node */
  uint64_t node_bytes_sent;       /**< bytes of those inside the node */
  uint64_t collectives;           /**< collectives that this rank has run */
  uint64_t tensors;               /**< tensors completed by these collectives */
  uint64_t payload_bytes;         /**< bytes of the tensors */
} horo_counters;
/** The initial value of horo_counters. */
#define HORO_COUNTERS \
  { sizeof(horo_counters), 0, 0, 0, 0, 0, 0, 0 }
/** Fills in the counters of this rank. */
HORO_C_EXPORT horo_status horo_get_counters(const horo_context* context, horo_counters* counters);

/** Opens the GPU of this rank, for tensors in its memory. Collective. Destroy the device after
 * everything that uses it. */
HORO_C_EXPORT horo_status horo_open_gpu(horo_context* context, horo_device** device);
/** Closes the GPU. Null: no effect. */
HORO_C_EXPORT void horo_device_destroy(horo_device* device);

#ifdef __cplusplus
}
#endif

#endif
