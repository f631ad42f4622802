// SPDX-License-Identifier: GPL-2.0
/*
 * N bodies that attract each other: floating point with roots and quotients, positions shared
 * in LDS.
 */
#include <algorithm>
#include <cmath>

#include "samples.hpp"

namespace {

constexpr uint32_t GROUP = 64, COUNT = 4 * GROUP, STEPS = 4;
constexpr float TIME = 0.01f, SOFT = 0.05f;

__host__ __device__ float4 pull(float4 on, float4 from, float4 sum)
{
	const float x = from.x - on.x, y = from.y - on.y, z = from.z - on.z;
	const float square = x * x + y * y + z * z + SOFT;
	const float force = from.w / (square * sqrtf(square));

	return make_float4(sum.x + x * force, sum.y + y * force, sum.z + z * force, 0);
}

__host__ __device__ void move(float4 &place, float4 &speed, float4 sum)
{
	speed = make_float4(speed.x + sum.x * TIME, speed.y + sum.y * TIME, speed.z + sum.z * TIME, 0);
	place = make_float4(place.x + speed.x * TIME, place.y + speed.y * TIME, place.z + speed.z * TIME,
			    place.w);
}

__global__ void step(const float4 *from, float4 *to, float4 *speeds)
{
	__shared__ float4 part[GROUP];
	const uint32_t n = blockIdx.x * GROUP + threadIdx.x;
	float4 place = from[n], speed = speeds[n], sum = make_float4(0, 0, 0, 0);

	for (uint32_t t = 0; t < COUNT; t += GROUP) {
		part[threadIdx.x] = from[t + threadIdx.x];
		__syncthreads();
		for (uint32_t k = 0; k < GROUP; k++)
			sum = pull(place, part[k], sum);
		__syncthreads();
	}
	move(place, speed, sum);
	to[n] = place;
	speeds[n] = speed;
}

float random_place(uint32_t n)
{
	return (float)(number(n) % 2000) / 1000 - 1;
}

}

void bodies()
{
	Buffer<float4> a(COUNT), b(COUNT), speeds(COUNT, make_float4(0, 0, 0, 0));
	float worst = 0;

	for (uint32_t n = 0; n < COUNT; n++)
		a[n] = make_float4(random_place(3 * n), random_place(3 * n + 1), random_place(3 * n + 2),
				   (float)(number(n) % 10) / 100);
	a.up();
	std::vector<float4> places = a.host, moved = places, velocities = speeds.host;

	begin();
	for (uint32_t s = 0; s < STEPS; s++) {
		step<<<COUNT / GROUP, GROUP>>>(s % 2 ? b.device : a.device, s % 2 ? a.device : b.device,
					       speeds.device);
		for (uint32_t n = 0; n < COUNT; n++) {
			float4 sum = make_float4(0, 0, 0, 0);

			for (uint32_t k = 0; k < COUNT; k++)
				sum = pull(places[n], places[k], sum);
			moved[n] = places[n];
			move(moved[n], velocities[n], sum);
		}
		places = moved;
	}
	finish("step");
	a.down();
	/* The processor rounds elsewhere. */
	for (uint32_t n = 0; n < COUNT; n++)
		worst = std::max({ worst, std::fabs(a[n].x - places[n].x), std::fabs(a[n].y - places[n].y),
				   std::fabs(a[n].z - places[n].z) });
	result(worst < 1e-4f, "%u bodies, %u steps, greatest difference %g", COUNT, STEPS, worst);
}
