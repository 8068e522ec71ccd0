// The headers that all generated code needs. Loops also need wir/control.h.
#pragma once

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/layout.h>
#include <wir/number.h>
#include <wir/op.h>
#include <wir/program.h>
#include <wir/tensor.h>
