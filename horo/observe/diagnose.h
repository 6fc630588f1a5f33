#pragma once

#include "horo/observe/rank_snapshot.h"
