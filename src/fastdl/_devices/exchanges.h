/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports and exports of memory on devices: the functions that the host core calls (devices.h).
 */
#ifndef FASTDL_DEVICES_EXCHANGES_H_
#define FASTDL_DEVICES_EXCHANGES_H_

/* Installs these functions in the host core. Call this once, on import. */
void fdl_exchanges_at_import(void);

#endif
