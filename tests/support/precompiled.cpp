// This program exists only to build the precompiled headers that the test programs share.
int main() {}
