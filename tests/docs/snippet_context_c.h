/* Declares the names of a training program for the C fragments in the documentation, which are only
 * compiled. */
#include <stdio.h>

#include "horo/horo_c.h"

extern horo_context* job;
extern float weight[1024], by_weight[1024], by_bias[32], loss[1];
