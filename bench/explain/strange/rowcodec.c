// An extension of CPython: the encoder takes a reference too many of its result.
#include <Python.h>
static PyObject *encode_row(PyObject *self, PyObject *number) {
    (void)self;
    PyObject *row = PyBytes_FromStringAndSize(NULL, 1800);
    memset(PyBytes_AS_STRING(row), (int)PyLong_AsLong(number), 1800);
    Py_INCREF(row);
    return row;
}
static PyMethodDef methods[] = {{"encode_row", encode_row, METH_O, "Encodes a row."}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "rowcodec", 0, -1, methods, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit_rowcodec(void) { return PyModule_Create(&module); }
