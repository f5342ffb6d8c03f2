// SPDX-License-Identifier: Apache-2.0
//
// A consumer of exchange tables in Rust, written from the DLPack 1.3 specification: it shares no
// header with fastdl. What a Rust extension needs is that the layouts below are right and that the
// five functions keep their promises, so that is what the tests call it for.
//
// Compiled by plain rustc, 1.77 or newer, to a shared library (tests/test_rust.py); Python's own
// functions are those of the process that loads it. Every exported function needs the GIL, unless it says
// otherwise, and returns a new reference, or NULL with an exception.

use std::ffi::{c_char, c_double, c_int, c_uint, c_ulong, c_void, CStr, CString};
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
    fn PyList_Append(list: Object, item: Object) -> c_int;
    fn PyList_New(size: isize) -> Object;
    fn PyLong_AsVoidPtr(number: Object) -> *mut c_void;
    fn PyLong_FromVoidPtr(pointer: *mut c_void) -> Object;
    fn PyType_GetFlags(class: Object) -> c_ulong;
    fn PyObject_Type(object: Object) -> Object;
    fn Py_BuildValue(format: *const c_char, ...) -> Object;
    fn Py_DecRef(object: Object);
}

/// Sets an exception, if none is there.
unsafe fn raise(kind: Object, message: &str) -> Object {
    if PyErr_Occurred().is_null() {
        let text = CString::new(message).unwrap();
        PyErr_SetString(kind, text.as_ptr());
    }
    null_mut()
}

unsafe fn is_int(object: Object) -> bool {
    const LONG_SUBCLASS: c_ulong = 1 << 24;
    let class = PyObject_Type(object);
    let answer = PyType_GetFlags(class) & LONG_SUBCLASS != 0;
    Py_DecRef(class);
    answer
}

// ---- finding a table ----

/// The first link of a chain: what a capsule or, in the older form, an integer holds.
unsafe fn first_link(published: Object) -> *const Header {
    let pointer = if is_int(published) {
        PyLong_AsVoidPtr(published)
    } else {
        PyCapsule_GetPointer(published, c"dlpack_exchange_api".as_ptr())
    };
    pointer.cast()
}

/// The first table of the chain that this file understands, or NULL with an exception.
unsafe fn usable(published: Object) -> *const Table {
    let mut link = first_link(published);
    while !link.is_null() {
        if (*link).version.major == 1 {
            return link.cast();
        }
        link = (*link).prev_api;
    }
    raise(PyExc_BufferError, "expected an exchange table of version 1, got none in the chain");
    null()
}

/// A list of (major, minor), one for each link of the chain.
#[no_mangle]
pub unsafe extern "C" fn versions(published: Object) -> Object {
    let mut link = first_link(published);
    if link.is_null() {
        return raise(PyExc_TypeError, "expected an exchange table, got NULL");
    }
    let list = PyList_New(0);
    while !list.is_null() && !link.is_null() {
        let Version { major, minor } = (*link).version;
        let pair = Py_BuildValue(c"(II)".as_ptr(), major as c_uint, minor as c_uint);
        if pair.is_null() || PyList_Append(list, pair) < 0 {
            Py_DecRef(pair);
            Py_DecRef(list);
            return null_mut();
        }
        Py_DecRef(pair);
        link = (*link).prev_api;
    }
    list
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
    let managed = own_pointer(published, object);
    if managed.is_null() {
        return null_mut();
    }
    let result = as_float(sum(&(*managed).tensor));
    discard(managed);
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

// ---- a tensor that is kept ----

unsafe fn own_pointer(published: Object, object: Object) -> *mut Managed {
    let table = usable(published);
    let mut managed = null_mut();
    if !table.is_null() && ((*table).from_object)(object, &mut managed) != 0 {
        raise(PyExc_BufferError, "the table failed without an exception");
        return null_mut();
    }
    managed
}

/// An owned tensor as a number, for `total` and `discard`.
#[no_mangle]
pub unsafe extern "C" fn own(published: Object, object: Object) -> Object {
    let managed = own_pointer(published, object);
    if managed.is_null() {
        null_mut()
    } else {
        PyLong_FromVoidPtr(managed.cast())
    }
}

#[no_mangle]
pub unsafe extern "C" fn total(managed: *const Managed) -> Object {
    as_float(sum(&(*managed).tensor))
}

/// (major, minor, flags)
#[no_mangle]
pub unsafe extern "C" fn stamp(managed: *const Managed) -> Object {
    let Version { major, minor } = (*managed).version;
    let flags = (*managed).flags as c_ulong;
    Py_BuildValue(c"(IIk)".as_ptr(), major as c_uint, minor as c_uint, flags)
}

/// Calls the deleter. Needs no GIL.
#[no_mangle]
pub unsafe extern "C" fn discard(managed: *mut Managed) {
    if let Some(deleter) = (*managed).deleter {
        deleter(managed);
    }
}

// ---- making a tensor ----

/// What an allocator said, copied: its strings are its own.
#[derive(Default)]
struct Complaint {
    calls: u32,
    kind: CString,
    message: CString,
}

unsafe extern "C" fn complain(context: *mut c_void, kind: *const c_char, message: *const c_char) {
    let complaint = &mut *context.cast::<Complaint>();
    complaint.calls += 1;
    complaint.kind = CStr::from_ptr(kind).to_owned();
    complaint.message = CStr::from_ptr(message).to_owned();
}

/// A new object of the table's library: float32 on that kind of device, of shape (rows, columns),
/// with elements 0, 1, 2, ... A failing allocator gives (times it complained, kind, message).
#[no_mangle]
pub unsafe extern "C" fn arange(published: Object, kind: i32, rows: i64, columns: i64) -> Object {
    let table = usable(published);
    if table.is_null() {
        return null_mut();
    }
    let mut shape = [rows, columns];
    let mut prototype = Tensor {
        data: null_mut(),
        device: Device { kind, id: 0 },
        ndim: 2,
        dtype: FLOAT32,
        shape: shape.as_mut_ptr(),
        strides: null_mut(),
        byte_offset: 0,
    };
    let mut managed = null_mut();
    let mut complaint = Complaint::default();
    let context = (&mut complaint as *mut Complaint).cast();
    if ((*table).allocate)(&mut prototype, &mut managed, context, complain) != 0 {
        let (kind, message) = (complaint.kind.as_ptr(), complaint.message.as_ptr());
        return Py_BuildValue(c"(iss)".as_ptr(), complaint.calls as c_int, kind, message);
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

/// The table's current stream on a device, as a number.
#[no_mangle]
pub unsafe extern "C" fn stream(published: Object, kind: i32, id: i32) -> Object {
    let table = usable(published);
    let mut found = null_mut();
    if table.is_null() {
        return null_mut();
    }
    if ((*table).current_work_stream)(kind, id, &mut found) != 0 {
        return raise(PyExc_BufferError, "the table failed without an exception");
    }
    PyLong_FromVoidPtr(found)
}
