/* SPDX-License-Identifier: Apache-2.0 */
#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

int fdl_refuse(fdl_failure *failure, const char *format, ...)
{
    va_list arguments;
    failure->code = 0;
    failure->no_memory = 0;
    va_start(arguments, format);
    (void)vsnprintf(failure->text, sizeof(failure->text), format, arguments);
    va_end(arguments);
    return -1;
}

int fdl_refuse_memory(fdl_failure *failure)
{
    (void)fdl_refuse(failure, "out of memory");
    failure->no_memory = 1;
    return -1;
}
