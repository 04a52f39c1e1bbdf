// An extension of CPython: counts columns, smooths samples, encodes readings.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

__attribute__((noinline)) static long split_columns(const char *row, Py_ssize_t size) {
    char *columns = malloc(size + 64);
    memcpy(columns, row, size);
    columns[size] = 0;
    long count = 0;
    for (char *at = columns; (at = strchr(at, ',')); at++) {
        *at = 0;
        count++;
    }
    if (columns[0] == '"') // a quoted row is counted again elsewhere
        return -count;
    free(columns);
    return count;
}

static PyObject *count_columns(PyObject *self, PyObject *arguments) {
    const char *row;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "y#", &row, &size))
        return NULL;
    return PyLong_FromLong(split_columns(row, size));
}

static PyObject *encode_reading(PyObject *self, PyObject *number) {
    PyObject *reading = PyBytes_FromStringAndSize(NULL, 1800);
    memset(PyBytes_AS_STRING(reading), (int)PyLong_AsLong(number), 1800);
    Py_INCREF(reading);
    return reading;
}

typedef struct {
    PyObject_HEAD double *window;
    Py_ssize_t count, capacity;
    int finished;
} Smoother;

__attribute__((noinline)) static void window_push(Smoother *smoother, double value) {
    if (smoother->count == smoother->capacity) {
        smoother->capacity = smoother->capacity ? smoother->capacity * 2 : 32;
        smoother->window = realloc(smoother->window, smoother->capacity * sizeof *smoother->window);
    }
    smoother->window[smoother->count++] = value;
}

static PyObject *push(Smoother *smoother, PyObject *argument) {
    double value = PyFloat_AsDouble(argument);
    for (int i = 0; i < 8; i++)
        window_push(smoother, value / (i + 1));
    Py_RETURN_NONE;
}

static PyObject *finish(Smoother *smoother, PyObject *none) {
    double sum = 0;
    for (Py_ssize_t i = 0; i < smoother->count; i++)
        sum += smoother->window[i];
    smoother->finished = 1;
    return PyFloat_FromDouble(sum);
}

static void dealloc(Smoother *smoother) {
    if (smoother->finished)
        free(smoother->window);
    Py_TYPE(smoother)->tp_free((PyObject *)smoother);
}

static PyMethodDef smoother_methods[] = {
    {"push", (PyCFunction)push, METH_O, 0}, {"finish", (PyCFunction)finish, METH_NOARGS, 0}, {0}};

static PyTypeObject smoother_type = {
    PyVarObject_HEAD_INIT(0, 0).tp_name = "measure.Smoother",
    .tp_basicsize = sizeof(Smoother),
    .tp_dealloc = (destructor)dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_methods = smoother_methods,
    .tp_new = PyType_GenericNew,
};

static PyMethodDef methods[] = {
    {"count_columns", count_columns, METH_VARARGS, 0}, {"encode_reading", encode_reading, METH_O, 0}, {0}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "measure", 0, -1, methods};

PyMODINIT_FUNC PyInit_measure(void) {
    PyObject *made = PyType_Ready(&smoother_type) ? NULL : PyModule_Create(&module);
    if (made)
        PyModule_AddObjectRef(made, "Smoother", (PyObject *)&smoother_type);
    return made;
}
