/* horo_c.h compiles as C99 and as every standard of C++ (tests/c/CMakeLists.txt). */
#include "horo/horo_c.h"

const horo_tensor horo_test_tensor = {"fc1.weight", NULL, HORO_FLOAT32, 12};
const horo_options horo_test_options = HORO_OPTIONS;
const horo_gradient_sync_options horo_test_sync_options = HORO_GRADIENT_SYNC_OPTIONS;
const horo_step_report horo_test_report = HORO_STEP_REPORT;
const horo_counters horo_test_counters = HORO_COUNTERS;
