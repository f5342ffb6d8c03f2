/* SPDX-License-Identifier: Apache-2.0
 *
 * What an exchange means for memory on devices: the answers to the host core (devices.h).
 */
#ifndef FASTDL_DEVICES_EXCHANGES_H_
#define FASTDL_DEVICES_EXCHANGES_H_

/* Call this once, on import: gives the host core its functions. */
void fdl_exchanges_at_import(void);

#endif
