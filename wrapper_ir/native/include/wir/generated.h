// All that generated code includes, loops excepted.
#pragma once

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/layout.h>
#include <wir/number.h>
#include <wir/op.h>
#include <wir/program.h>
#include <wir/tensor.h>
