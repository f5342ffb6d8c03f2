// SPDX-License-Identifier: Apache-2.0
//
// A Rust extension that exchanges tensors by capsules and by tables. It is written from the DLPack
// 1.3 specification, as crates like dlpack-ffi are, and shares no header with fastdl: what it tests
// is that the layouts below fit. What the functions of a table promise is tested from C, by
// tests/core/test_faults_exchange.py.
//
// Compiled by plain rustc, 1.77 or newer, to a shared library; Python's own functions are those of
// the process that loads it. Every exported function needs the GIL. One that returns an object
// returns a new reference, or NULL with an exception.

use std::ffi::{c_char, c_double, c_int, c_void, CStr, CString};
use std::mem::{offset_of, size_of};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI64, Ordering};

// ---- the binary interface ----

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
pub struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
pub struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
pub struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
pub struct Legacy {
    tensor: Tensor,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

#[repr(C)]
pub struct Managed {
    version: Version,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: Tensor,
}

type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

#[repr(C)]
pub struct Header {
    version: Version,
    prev_api: *const Header,
}

#[repr(C)]
pub struct Table {
    header: Header,
    allocate: unsafe extern "C" fn(*mut Tensor, *mut *mut Managed, *mut c_void, SetError) -> c_int,
    from_object: unsafe extern "C" fn(*mut c_void, *mut *mut Managed) -> c_int,
    to_object: unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> c_int,
    borrow: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
    current_work_stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int,
}

// The numbers of the specification, for machines of 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Tensor>() == 48);
    assert!(offset_of!(Tensor, device) == 8);
    assert!(offset_of!(Tensor, ndim) == 16);
    assert!(offset_of!(Tensor, dtype) == 20);
    assert!(offset_of!(Tensor, shape) == 24);
    assert!(offset_of!(Tensor, byte_offset) == 40);
    assert!(size_of::<Managed>() == 80);
    assert!(offset_of!(Managed, deleter) == 16);
    assert!(offset_of!(Managed, tensor) == 32);
    assert!(size_of::<Table>() == 56);
    assert!(offset_of!(Table, allocate) == 16);
    assert!(offset_of!(Table, current_work_stream) == 48);
};

const FLOAT32: DataType = DataType { code: 2, bits: 32, lanes: 1 };
const CPU: Device = Device { kind: 1, id: 0 };

// ---- Python, as far as it is needed: of the stable ABI ----

pub type Object = *mut c_void;
type Destructor = unsafe extern "C" fn(Object);

extern "C" {
    static PyExc_BufferError: Object;
    static PyExc_TypeError: Object;
    fn PyCapsule_New(pointer: *mut c_void, name: *const c_char, by: Option<Destructor>) -> Object;
    fn PyCapsule_IsValid(capsule: Object, name: *const c_char) -> c_int;
    fn PyCapsule_GetPointer(capsule: Object, name: *const c_char) -> *mut c_void;
    fn PyCapsule_SetName(capsule: Object, name: *const c_char) -> c_int;
    fn PyErr_Occurred() -> Object;
    fn PyErr_SetString(kind: Object, message: *const c_char);
    fn PyFloat_FromDouble(value: c_double) -> Object;
}

/// Sets an exception, if none is there.
unsafe fn raise(kind: Object, message: &str) -> Object {
    if PyErr_Occurred().is_null() {
        let text = CString::new(message).unwrap();
        PyErr_SetString(kind, text.as_ptr());
    }
    null_mut()
}

// ---- reading a tensor ----

/// The sum of float32 elements at any strides. Adds 1 to each if they are `changed`, so that the
/// producer sees that the memory is its own.
unsafe fn sum(tensor: &Tensor, changed: bool) -> Result<f64, &'static str> {
    if tensor.dtype != FLOAT32 || tensor.device.kind != CPU.kind {
        return Err("expected float32 on the host, got something else");
    }
    if tensor.ndim > 0 && (tensor.shape.is_null() || tensor.strides.is_null()) {
        return Err("expected a shape and strides, got NULL");
    }
    let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize).cast::<f32>();
    Ok(sum_from(tensor, 0, first, changed))
}

unsafe fn sum_from(tensor: &Tensor, dimension: usize, at: *mut f32, changed: bool) -> f64 {
    if dimension == tensor.ndim as usize {
        let value = *at;
        if changed {
            *at += 1.0;
        }
        return f64::from(value);
    }
    let size = *tensor.shape.add(dimension);
    let stride = *tensor.strides.add(dimension) as isize;
    (0..size as isize)
        .map(|i| sum_from(tensor, dimension + 1, at.wrapping_offset(i * stride), changed))
        .sum()
}

unsafe fn as_float(result: Result<f64, &str>) -> Object {
    match result {
        Ok(value) => PyFloat_FromDouble(value),
        Err(message) => raise(PyExc_TypeError, message),
    }
}

// ---- capsules ----

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

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

unsafe fn drop_owner(context: *mut c_void) {
    drop(Box::from_raw(context as *mut Owner));
    ALIVE.fetch_sub(1, Ordering::SeqCst);
}

unsafe extern "C" fn delete_legacy(managed: *mut Legacy) {
    drop_owner((*managed).manager_ctx);
    drop(Box::from_raw(managed));
}

unsafe extern "C" fn delete_versioned(managed: *mut Managed) {
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
    let owner = Box::leak(Box::new(Owner {
        data: (0..rows * columns).map(|value| value as f32).collect(),
        shape: [rows, columns],
        strides: if columns_first != 0 { [1, rows] } else { [columns, 1] },
    }));
    let tensor = Tensor {
        data: owner.data.as_mut_ptr().cast(),
        device: CPU,
        ndim: 2,
        dtype: FLOAT32,
        shape: owner.shape.as_mut_ptr(),
        strides: owner.strides.as_mut_ptr(),
        byte_offset: 0,
    };
    let manager_ctx = (owner as *mut Owner).cast();
    ALIVE.fetch_add(1, Ordering::SeqCst);
    if versioned == 0 {
        let managed = Legacy { tensor, manager_ctx, deleter: Some(delete_legacy) };
        return PyCapsule_New(Box::into_raw(Box::new(managed)).cast(), LEGACY.as_ptr(), Some(destroy));
    }
    let version = Version { major: 1, minor: 0 };
    let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut Managed));
    let managed = Managed { version, manager_ctx, deleter, flags: 0, tensor };
    PyCapsule_New(Box::into_raw(Box::new(managed)).cast(), VERSIONED.as_ptr(), Some(destroy))
}

/// Consumes a capsule of either kind: the sum of its elements, to each of which it adds 1.
#[no_mangle]
pub unsafe extern "C" fn take(capsule: Object) -> Object {
    if PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
        let managed: *mut Managed = PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast();
        PyCapsule_SetName(capsule, c"used_dltensor_versioned".as_ptr());
        let writable = (*managed).version.major == 1 && (*managed).flags & 1 == 0;
        let found = if writable { sum(&(*managed).tensor, true) } else { Err("not writable") };
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
        as_float(found)
    } else {
        let managed: *mut Legacy = PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast();
        if managed.is_null() {
            return null_mut();
        }
        PyCapsule_SetName(capsule, c"used_dltensor".as_ptr());
        let found = sum(&(*managed).tensor, true);
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
        as_float(found)
    }
}

// ---- tables ----

/// The first table in the chain of a capsule that this file understands, or NULL with an exception.
unsafe fn usable(published: Object) -> *const Table {
    let name = c"dlpack_exchange_api";
    let mut link: *const Header = PyCapsule_GetPointer(published, name.as_ptr()).cast();
    while !link.is_null() {
        if (*link).version.major == 1 {
            return link.cast();
        }
        link = (*link).prev_api;
    }
    raise(PyExc_BufferError, "expected an exchange table of version 1, got none in the chain");
    null()
}

/// The sum of an object's elements, by the owning function, and given back.
#[no_mangle]
pub unsafe extern "C" fn total_owned(published: Object, object: Object) -> Object {
    let table = usable(published);
    if table.is_null() {
        return null_mut();
    }
    let mut managed = null_mut();
    if ((*table).from_object)(object, &mut managed) != 0 {
        return raise(PyExc_BufferError, "the table failed without an exception");
    }
    let result = as_float(sum(&(*managed).tensor, false));
    if let Some(deleter) = (*managed).deleter {
        deleter(managed);
    }
    result
}

/// The same, borrowed: TypeError where the table has no function for that.
#[no_mangle]
pub unsafe extern "C" fn total_borrowed(published: Object, object: Object) -> Object {
    let table = usable(published);
    if table.is_null() {
        return null_mut();
    }
    let Some(borrow) = (*table).borrow else {
        return raise(PyExc_TypeError, "expected a table that borrows, got NULL");
    };
    let mut tensor = std::mem::MaybeUninit::<Tensor>::uninit();
    if borrow(object, tensor.as_mut_ptr()) != 0 {
        return raise(PyExc_BufferError, "the table failed without an exception");
    }
    as_float(sum(&tensor.assume_init(), false))
}

unsafe extern "C" fn complain(_: *mut c_void, _: *const c_char, message: *const c_char) {
    PyErr_SetString(PyExc_BufferError, message);
}

/// A new object of the table's library: float32 on the host, of shape (rows, columns), with
/// elements 0, 1, 2, ...
#[no_mangle]
pub unsafe extern "C" fn arange(published: Object, rows: i64, columns: i64) -> Object {
    let table = usable(published);
    if table.is_null() {
        return null_mut();
    }
    let mut shape = [rows, columns];
    let mut prototype = Tensor {
        data: null_mut(),
        device: CPU,
        ndim: 2,
        dtype: FLOAT32,
        shape: shape.as_mut_ptr(),
        strides: null_mut(),
        byte_offset: 0,
    };
    let mut managed = null_mut();
    if ((*table).allocate)(&mut prototype, &mut managed, null_mut(), complain) != 0 {
        return raise(PyExc_BufferError, "the table failed without an exception");
    }
    let tensor = &(*managed).tensor;
    let first = tensor.data.cast::<u8>().add(tensor.byte_offset as usize).cast::<f32>();
    for i in 0..(rows * columns) as usize {
        *first.add(i) = i as f32;
    }
    let mut object = null_mut();
    if ((*table).to_object)(managed, &mut object) != 0 {
        return raise(PyExc_BufferError, "the table failed without an exception");
    }
    object
}
