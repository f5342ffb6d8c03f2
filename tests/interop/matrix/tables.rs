// SPDX-License-Identifier: Apache-2.0
//
// A Rust extension that uses exchange tables, as capsules.rs uses capsules. It is written from the
// DLPack 1.3 specification and shares no header with fastdl: what it tests is that the layouts
// below fit. What the five functions promise is tested from C, by tests/test_faults_exchange.py.
//
// Compiled by plain rustc, 1.77 or newer, to a shared library; Python's own functions are those of
// the process that loads it. Every exported function needs the GIL, and returns a new reference, or
// NULL with an exception.

use std::ffi::{c_char, c_double, c_int, c_void, CString};
use std::mem::{offset_of, size_of};
use std::ptr::{null, null_mut};

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

extern "C" {
    static PyExc_BufferError: Object;
    static PyExc_TypeError: Object;
    fn PyCapsule_GetPointer(capsule: Object, name: *const c_char) -> *mut c_void;
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

// ---- finding a table ----

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

// ---- reading a tensor ----

/// The sum of float32 elements at any strides.
unsafe fn sum(tensor: &Tensor) -> Result<f64, &'static str> {
    if tensor.dtype != FLOAT32 || tensor.device.kind != CPU.kind {
        return Err("expected float32 on the host, got something else");
    }
    if tensor.ndim > 0 && (tensor.shape.is_null() || tensor.strides.is_null()) {
        return Err("expected a shape and strides, got NULL");
    }
    let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize).cast::<f32>();
    Ok(sum_from(tensor, 0, first))
}

unsafe fn sum_from(tensor: &Tensor, dimension: usize, at: *const f32) -> f64 {
    if dimension == tensor.ndim as usize {
        return f64::from(*at);
    }
    let size = *tensor.shape.add(dimension);
    let stride = *tensor.strides.add(dimension) as isize;
    (0..size as isize)
        .map(|i| sum_from(tensor, dimension + 1, at.wrapping_offset(i * stride)))
        .sum()
}

unsafe fn as_float(result: Result<f64, &str>) -> Object {
    match result {
        Ok(value) => PyFloat_FromDouble(value),
        Err(message) => raise(PyExc_TypeError, message),
    }
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
    let result = as_float(sum(&(*managed).tensor));
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
    as_float(sum(&tensor.assume_init()))
}

// ---- making a tensor ----

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
