// SPDX-License-Identifier: Apache-2.0
//
// A Rust extension that exchanges capsules, with the definitions of DLPack as crates like dlpack-ffi
// have them: the structs of the C header, one for one. Knows nothing of fastdl. Compiled by plain
// rustc to a shared library; Python's own functions are those of the process that loads it.
// tables.rs does the same by exchange tables.

use std::ffi::{c_char, c_void, CStr};
use std::sync::atomic::{AtomicI64, Ordering};

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDevice {
    device_type: u32,
    device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
pub struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
pub struct DLManagedTensor {
    dl_tensor: DLTensor,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

#[repr(C)]
pub struct DLPackVersion {
    major: u32,
    minor: u32,
}

#[repr(C)]
pub struct DLManagedTensorVersioned {
    version: DLPackVersion,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    flags: u64,
    dl_tensor: DLTensor,
}

type Object = *mut c_void;

extern "C" {
    fn PyCapsule_New(
        pointer: *mut c_void,
        name: *const c_char,
        destructor: Option<unsafe extern "C" fn(Object)>,
    ) -> Object;
    fn PyCapsule_IsValid(capsule: Object, name: *const c_char) -> i32;
    fn PyCapsule_GetPointer(capsule: Object, name: *const c_char) -> *mut c_void;
    fn PyCapsule_SetName(capsule: Object, name: *const c_char) -> i32;
}

const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";
const CPU: u32 = 1;
const FLOAT32: DLDataType = DLDataType { code: 2, bits: 32, lanes: 1 };

/// Memory of Rust's, with the geometry that describes it.
struct Owner {
    data: Vec<f32>,
    shape: [i64; 2],
    strides: [i64; 2],
}

/// How many tensors made here are alive.
static ALIVE: AtomicI64 = AtomicI64::new(0);

#[no_mangle]
pub extern "C" fn alive() -> i64 {
    ALIVE.load(Ordering::SeqCst)
}

fn describe(owner: &mut Owner) -> DLTensor {
    DLTensor {
        data: owner.data.as_mut_ptr().cast(),
        device: DLDevice { device_type: CPU, device_id: 0 },
        ndim: 2,
        dtype: FLOAT32,
        shape: owner.shape.as_mut_ptr(),
        strides: owner.strides.as_mut_ptr(),
        byte_offset: 0,
    }
}

unsafe fn drop_owner(context: *mut c_void) {
    drop(Box::from_raw(context as *mut Owner));
    ALIVE.fetch_sub(1, Ordering::SeqCst);
}

unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    drop_owner((*managed).manager_ctx);
    drop(Box::from_raw(managed));
}

unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    drop_owner((*managed).manager_ctx);
    drop(Box::from_raw(managed));
}

/// What nobody took is deleted with its capsule.
unsafe extern "C" fn destroy(capsule: Object) {
    if PyCapsule_IsValid(capsule, LEGACY.as_ptr()) != 0 {
        delete_legacy(PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
    } else if PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
        delete_versioned(PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
    }
}

/// A capsule of rows * columns numbers 0, 1, 2, ...; column-major if `columns_first`.
#[no_mangle]
pub unsafe extern "C" fn make(rows: i64, columns: i64, columns_first: i32, versioned: i32) -> Object {
    let mut owner = Box::new(Owner {
        data: (0..rows * columns).map(|value| value as f32).collect(),
        shape: [rows, columns],
        strides: if columns_first != 0 { [1, rows] } else { [columns, 1] },
    });
    let dl_tensor = describe(&mut owner);
    let manager_ctx = Box::into_raw(owner).cast();
    ALIVE.fetch_add(1, Ordering::SeqCst);
    if versioned == 0 {
        let managed = DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete_legacy) };
        return PyCapsule_New(Box::into_raw(Box::new(managed)).cast(), LEGACY.as_ptr(), Some(destroy));
    }
    let managed = DLManagedTensorVersioned {
        version: DLPackVersion { major: 1, minor: 0 },
        manager_ctx,
        deleter: Some(delete_versioned),
        flags: 0,
        dl_tensor,
    };
    PyCapsule_New(Box::into_raw(Box::new(managed)).cast(), VERSIONED.as_ptr(), Some(destroy))
}

/// Adds 1 to each element on the way, so that the producer sees that the memory is its own.
unsafe fn add_up(tensor: &DLTensor) -> f64 {
    let dtype = tensor.dtype;
    if (dtype.code, dtype.bits, dtype.lanes, tensor.device.device_type) != (2, 32, 1, CPU) {
        return f64::NAN;
    }
    let ndim = tensor.ndim as usize;
    let (mut index, mut sum) = (vec![0; ndim], 0.0);
    if (0..ndim).any(|axis| *tensor.shape.add(axis) == 0) {
        return sum;
    }
    let first = tensor.data.cast::<u8>().add(tensor.byte_offset as usize).cast::<f32>();
    loop {
        let offset: i64 = (0..ndim).map(|axis| index[axis] * *tensor.strides.add(axis)).sum();
        let element = first.offset(offset as isize);
        sum += f64::from(*element);
        *element += 1.0;
        let Some(axis) = (0..ndim).rev().find(|&axis| {
            index[axis] += 1;
            let more = index[axis] < *tensor.shape.add(axis);
            if !more {
                index[axis] = 0;
            }
            more
        }) else {
            return sum;
        };
        let _ = axis;
    }
}

/// Consumes a capsule of either kind: the sum of its elements, or NaN if it is neither.
#[no_mangle]
pub unsafe extern "C" fn take(capsule: Object) -> f64 {
    if PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
        let managed: *mut DLManagedTensorVersioned =
            PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast();
        PyCapsule_SetName(capsule, VERSIONED_USED.as_ptr());
        let writable = (*managed).version.major == 1 && (*managed).flags & 1 == 0;
        let sum = if writable { add_up(&(*managed).dl_tensor) } else { f64::NAN };
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
        sum
    } else if PyCapsule_IsValid(capsule, LEGACY.as_ptr()) != 0 {
        let managed: *mut DLManagedTensor = PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast();
        PyCapsule_SetName(capsule, LEGACY_USED.as_ptr());
        let sum = add_up(&(*managed).dl_tensor);
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
        sum
    } else {
        f64::NAN
    }
}
