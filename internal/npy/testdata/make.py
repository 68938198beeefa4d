"""Arrays in every form that the package reads, written by NumPy 2.4.6.

Entry [i, j, k] of the shape [2, 3, 4] is n = 12 i + 4 j + k for uint8 and
n / 2 - 3 for the others.
"""
import numpy as np
from numpy.lib import format as npy

n = np.arange(24).reshape(2, 3, 4)


def write(name, dtype, fortran=False, version=(1, 0)):
    a = n if dtype.endswith("u1") else n / 2 - 3
    a = np.array(a, dtype=dtype, order="F" if fortran else "C")
    with open(name, "wb") as f:
        npy.write_array(f, a, version=version)


write("u1.npy", "|u1")
write("u1_fortran.npy", "|u1", fortran=True)
write("f2.npy", "<f2")
write("f2_big_fortran.npy", ">f2", fortran=True)
write("f4_big.npy", ">f4")
write("f4_fortran_v2.npy", "<f4", fortran=True, version=(2, 0))
write("f8_v3.npy", "<f8", version=(3, 0))
write("f8_big_fortran.npy", ">f8", fortran=True)
