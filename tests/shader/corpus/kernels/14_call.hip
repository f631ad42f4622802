// SPDX-License-Identifier: GPL-2.0
// Calls of functions, by pointers too, recursion, and private memory.
#include "device.hpp"
#define NI __attribute__((noinline))

D NI int f_add(int a, int b)
{
	return a + b * 3;
}

D NI int f_mul(int a, int b)
{
	return a * b - 1;
}

D NI int f_loc(int a, int b)
{
	volatile int t[8];
	for (int i = 0; i < 8; i++)
		t[i] = a + i;
	return t[b & 7];
}

typedef int (*fp)(int, int);
D fp const tab[3] = {f_add, f_mul, f_loc};

G void call_direct(const int *a, int *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = f_add(a[i], i) + f_mul(i, a[i]);
}

G void call_indirect(const int *a, int *o, int n)
{
	int i = GID;
	if (i < n)
		o[i] = tab[(u32)a[i] % 3](a[i], i);
}

D NI int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

G void recurse(const int *a, int *o)
{
	int i = GID;
	o[i] = fib(a[i] & 7);
}

G void scratch_arr(const int *a, int *o, int n)
{
	int b[64];
	int i = GID;
	for (int j = 0; j < 64; j++)
		b[j] = a[(i + j) & 1023];
	int s = 0;
	for (int j = 0; j < 64; j++)
		s += b[(a[j] ^ i) & 63];
	o[i] = s;
}

struct P {
	virtual D int v(int x)
	{
		return x - 1;
	}
};

struct A : P {
	D int v(int x) override
	{
		return x + 1;
	}
};

struct B : P {
	D int v(int x) override
	{
		return x * 2;
	}
};

G void virt(const int *a, int *o)
{
	A x;
	B y;
	int i = GID;
	P *p = (a[i] & 1) ? (P *)&x : (P *)&y;
	o[i] = p->v(a[i]);
}
